"""How the statements of a store are planned: by their values, and without them.

The statements are those that the store sends, caught on their way and given to EXPLAIN: a copy of
them here would go on passing after the original had changed.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import asyncpg
import msgspec
from sqlalchemy import Connection, Engine, event

from headgate.base.clock import ManualClock
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests import stores
from tests.conformance.crowds import Fill
from tests.stores import START


class Store(Protocol):
    """A store on a database."""

    database: Database


S = TypeVar("S", bound=Store)


class Sent(msgspec.Struct, frozen=True):
    """A statement as it went to the driver."""

    statement: str
    parameters: Any


class Ask(msgspec.Struct, Generic[S], frozen=True):
    """Something a store does often, and the indexes that its statements must stand on."""

    run: Callable[[S], Awaitable[object]]
    #: How a statement begins, and what its plan must name: a pattern, or all of a set of indexes.
    stands_on: Mapping[str, str | set[str]]


class Crowd(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What is asked of a store whose tables have many rows."""

    fill: Fill
    #: Those whose statements are looked at, and others that are filled.
    tables: tuple[str, ...]
    others: tuple[str, ...] = ()
    #: How a plan shows that it walks over a whole table.
    full_scan: re.Pattern[str]
    asks: Mapping[str, Ask[S]]
    store: Callable[[Database], S]
    #: It moves on with each ask: some of everything comes due meanwhile.
    clock: ManualClock = msgspec.field(default_factory=lambda: ManualClock(START))

    @contextmanager
    def caught(self) -> Iterator[list[Sent]]:
        """Every statement on the tables that is sent while inside."""
        sent: list[Sent] = []
        named = re.compile(rf"\b({'|'.join(self.tables)})\b")

        def note(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
            if named.search(statement):
                sent.append(Sent(statement, parameters[0] if many else parameters))

        event.listen(Engine, "before_cursor_execute", note)
        try:
            yield sent
        finally:
            event.remove(Engine, "before_cursor_execute", note)

    def assert_stands(self, ask: Ask[S], plans: list[tuple[Sent, str]]) -> None:
        """No statement walks over all rows, and each that is named stands on its indexes."""
        for _, steps in plans:
            assert not self.full_scan.search(steps), steps
        for begins, named in ask.stands_on.items():
            indexes = {named} if isinstance(named, str) else {rf"\b{one}\b" for one in named}
            found = [
                steps for sent, steps in plans if re.match(begins, " ".join(sent.statement.split()))
            ]
            assert found, f"no statement begins with {begins}: {[sent for sent, _ in plans]}"
            for steps in found:
                missing = {index for index in indexes if not re.search(index, steps)}
                assert not missing, steps


async def check_plans(crowd: Crowd[S], store: S) -> None:
    """All that is asked walks along the indexes that were made for it, given its values."""
    for ask in crowd.asks.values():
        crowd.clock.advance(1800)
        with crowd.caught() as sent:
            await ask.run(store)
        assert sent
        crowd.assert_stands(ask, [(each, await plan(store.database, each)) for each in sent])


async def check_generic_plans(crowd: Crowd[S], url: str, *, without: Collection[str] = ()) -> None:
    """The same on Postgres without values.

    The conditions of partial indexes are still met then: they stand in the statement itself.
    """
    database = PostgresDatabase(url, crowd.clock, server_time=False)
    async with stores.in_use(database):
        for ask in (ask for name, ask in crowd.asks.items() if name not in without):
            crowd.clock.advance(1800)
            with crowd.caught() as sent:
                await ask.run(crowd.store(database))
            crowd.assert_stands(ask, [(each, await generic_plan(url, each)) for each in sent])


async def plan(database: Database, sent: Sent) -> str:
    """How the database would answer, given these values."""

    def explain(tx: Connection) -> list[str]:
        how = "EXPLAIN QUERY PLAN" if tx.dialect.name == "sqlite" else "EXPLAIN"
        if tx.dialect.name == "postgresql":
            # The index has to be the better way, not only the one that our connections prefer.
            tx.exec_driver_sql("SET LOCAL enable_seqscan = on")
        rows = tx.exec_driver_sql(f"{how} {sent.statement}", sent.parameters)
        # SQLite tells a step in the last of its columns, Postgres in its only one.
        return [str(row[-1]) for row in rows]

    return "\n".join(await database.read(explain))


async def generic_plan(url: str, sent: Sent) -> str:
    """How Postgres would answer without looking at the values, as it may from the sixth run on."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE caught AS {sent.statement}")
        nothing = ", ".join("NULL" for _ in sent.parameters)
        given = f"({nothing})" if nothing else ""
        rows = await connection.fetch(f"EXPLAIN EXECUTE caught {given}")
    finally:
        await connection.close()
    return "\n".join(str(row[0]) for row in rows)
