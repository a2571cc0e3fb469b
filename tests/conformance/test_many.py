"""A batch of any size is written whole and exactly once, however alike its rows are."""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    ClauseElement,
    Connection,
    Dialect,
    FromClause,
    Integer,
    Text,
    select,
)
from sqlalchemy.types import TypeEngine

from headgate.base.encoding import Json
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.many import VARIANTS_MAX, BatchStatement, by_key
from headgate.store.sql.engine.types import JsonOf, UtcTime
from headgate.store.sql.jobs import events
from headgate.store.sql.tables import job_events
from tests.store_bundles import SqlStores
from tests.stores import START

KINDS: dict[str, TypeEngine[Any]] = {
    "number": Integer(),
    "word": Text(),
    "flag": Boolean(),
    "at": UtcTime(),
    "data": JsonOf[Json](Json),
}
#: Values that differ, those of `data` as JSON only: in Python they are equal.
DIFFERENT: dict[str, Sequence[Any]] = {
    "word": ["one", "two", None, "ü'\""],
    "flag": [True, False, None],
    "at": [START, START + timedelta(microseconds=1), None],
    "data": [1, True, 1.0],
}


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 100, 127, 128, 129, 300, 1000])
async def test_every_row_of_a_batch_is_written_once(sql_store: SqlStores, count: int) -> None:
    # Given so many rows, with what JSON and SQL hold special in them
    told = [(f"job-{n}", START, 'it\'s "told" ? $1 ,', {"n": n}) for n in range(count)]

    # When they are written together
    await sql_store.database.write(lambda tx: events.append(tx, told))

    # Then each is there
    rows = await sql_store.database.read(
        lambda tx: tx.execute(
            select(job_events.c.job_id, job_events.c.at, job_events.c.kind, job_events.c.data)
        ).all()
    )
    assert sorted(map(tuple, rows), key=lambda row: row[3]["n"]) == told


def build(given: FromClause, dialect: Dialect) -> ClauseElement:
    return select(*[given.c[name] for name in KINDS])


def rows_of(count: int, alike: Sequence[str]) -> list[dict[str, Any]]:
    """So many rows, which differ in all columns but those `alike`."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        row: dict[str, Any] = {"number": number}
        for name, values in DIFFERENT.items():
            row[name] = values[0 if name in alike else number % len(values)]
        rows.append(row)
    return rows


async def found(database: Database, statement: BatchStatement, rows: Sequence[Any]) -> list[Any]:
    def operation(tx: Connection) -> list[Any]:
        return sorted(map(list, statement.run(tx, rows)))

    return await database.read(operation)


async def test_every_value_arrives_as_it_was_given(database: Database) -> None:
    for count in (1, 3, 15, 16, 200):
        # All combinations of columns that are alike: more than there are statements for.
        statement = BatchStatement(by_key(KINDS), build, returns=list(KINDS.values()))
        for size in range(len(DIFFERENT) + 1):
            for alike in itertools.combinations(DIFFERENT, size):
                rows = rows_of(count, alike)

                arrived = await found(database, statement, rows)

                assert arrived == [list(row.values()) for row in rows]
                assert [type(row[-1]) for row in arrived] == [type(row["data"]) for row in rows]


async def test_rows_that_begin_with_nothing_arrive_too(database: Database) -> None:
    kinds: dict[str, TypeEngine[Any]] = {"word": Text(), "number": Integer()}
    statement = BatchStatement(
        by_key(kinds),
        lambda given, _: select(given.c.word, given.c.number),
        returns=[*kinds.values()],
    )
    for count in (3, 40):
        rows = [{"word": None, "number": 7}] * count

        assert await found(database, statement, rows) == [[None, 7]] * count


async def test_a_statement_is_compiled_for_a_few_combinations_only(database: Database) -> None:
    compiled = 0

    def counted(given: FromClause, dialect: Dialect) -> ClauseElement:
        nonlocal compiled
        compiled += 1
        return build(given, dialect)

    statement = BatchStatement(by_key(KINDS), counted, returns=list(KINDS.values()))
    for _ in range(2):
        for size in range(len(DIFFERENT) + 1):
            for alike in itertools.combinations(DIFFERENT, size):
                await found(database, statement, rows_of(20, alike))

    assert compiled <= VARIANTS_MAX + 1
