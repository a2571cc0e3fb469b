"""Limiters for the tests: one on each backend, all of them under a clock that the test moves."""

import itertools
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from redis import Redis
from sqlalchemy import select

from headgate.base.clock import Clock
from headgate.base.ids import UlidIds
from headgate.limits.memory import MemoryLimiter, SharedLedgers
from headgate.limits.redis import EPOCH_KEY, RedisLimiter
from headgate.model.budget import (
    Answer,
    Bucket,
    Budget,
    BudgetRequest,
    Exhausted,
    Granted,
    Ledger,
    Limit,
    RefusalReason,
    Scope,
)
from headgate.model.job import Lane
from headgate.policy import headroom, spending
from headgate.policy.headroom import Headroom, Shortage
from headgate.ports.limiter import Limiter, LimiterMemory
from headgate.store.dynamodb.budgets.limiter import DynamoLimiter
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.sql.budgets.limiter import SqlLimiter
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.tables import budgets
from tests import dynamo, stores

T = TypeVar("T")

KINDS = ("sqlite", "postgres", "ministack", "moto", "redis", "memory")
#: What decides is written twice: in Python, and for Redis in Lua. Those in databases run the first,
#: and `test_limiter_alike.py` holds them to it.
twice_decided = pytest.mark.parametrize("bench", ["memory", "redis"], indirect=True)
#: Strava's limits, as its documentation gives them.
STRAVA = Budget("strava", [Limit(100, per="15min", reserve=20), Limit(1000, per="day")])

_numbers = itertools.count(1)


class Bench(NamedTuple):
    """One backend, and the ways a test looks behind it."""

    kind: str
    #: Another limiter on the same backend, as another process would have it.
    another: Callable[[], Coroutine[Any, Any, Limiter]]
    #: Every ledger as it is kept, by its key.
    ledgers: Callable[[], Coroutine[Any, Any, dict[str, Ledger]]]
    #: Lose everything, where that can happen.
    forget: Callable[[], None] | None = None


class RequestStarted:
    """What a database would remember of the limiter, without the database."""

    def __init__(self, *, begun: bool = False) -> None:
        self.begun = begun
        self.kept: dict[str, Ledger] = {}
        self.raised = 0

    async def has_begun(self) -> bool:
        return self.begun

    async def note_begun(self) -> None:
        self.begun = True

    async def extend(
        self, budget: Budget, connection_id: str, lacking: Sequence[Shortage], *, at_ms: int
    ) -> Sequence[Headroom]:
        self.raised += 1
        return headroom.extend(budget, await self.ledgers(budget, connection_id), lacking, at_ms)

    async def count_429(
        self, budget: Budget, connection_id: str, scope: Scope, *, at_ms: int
    ) -> None:
        ledgers = await self.ledgers(budget, connection_id)
        spending.hour_of(ledgers[scope], at_ms).by_provider += 1

    async def ledgers(self, budget: Budget, connection_id: str | None) -> Mapping[Scope, Ledger]:
        return {
            scope: self.kept.setdefault(budget.ledger_key(scope, connection_id or ""), Ledger())
            for scope in budget.scopes
        }


class Opened:
    """Everything that a test has opened, to be closed at its end."""

    def __init__(self) -> None:
        self._open: list[SqliteDatabase | PostgresDatabase | DynamoTable | RedisLimiter] = []

    async def sqlite(self, path: Path, clock: Clock) -> SqlLimiter:
        database = SqliteDatabase(path, clock, synchronous="OFF")
        self._open.append(database)
        await database.open()
        return SqlLimiter(database)

    async def postgres(self, url: str, clock: Clock) -> SqlLimiter:
        database = PostgresDatabase(url, clock, server_time=False)
        if not await stores.lend_pool(database):
            self._open.append(database)
            await database.open()
        return SqlLimiter(database)

    async def dynamodb(
        self, endpoint: str, clock: Clock, table_name: str | None = None
    ) -> tuple[DynamoLimiter, DynamoTable]:
        if table_name is None:
            table = await dynamo.new_table(endpoint, clock)
        else:
            table = dynamo.table_on(endpoint, table_name, clock)
            await table.open()
        self._open.append(table)
        return DynamoLimiter(table), table

    def redis(
        self,
        url: str,
        clock: Clock,
        memory: LimiterMemory | None = None,
        *,
        server_time: bool = False,
    ) -> RedisLimiter:
        ids = UlidIds(clock, Random(next(_numbers)))
        limiter = RedisLimiter(url, memory or RequestStarted(), clock, ids, server_time=server_time)
        self._open.append(limiter)
        return limiter

    async def close(self) -> None:
        for each in reversed(self._open):
            await each.close()


def sqlite_bench(opened: Opened, template: Path, path: Path, clock: Clock) -> Bench:
    """A new SQLite file."""
    shutil.copyfile(template, path)
    return Bench("sqlite", lambda: opened.sqlite(path, clock), lambda: sqlite_ledgers(path, clock))


def postgres_bench(opened: Opened, url: str, clock: Clock) -> Bench:
    """A migrated Postgres, whatever is in it; `empty` it first."""

    async def ledgers() -> dict[str, Ledger]:
        limiter = await opened.postgres(url, clock)
        return await _sql_ledgers(limiter._database)

    return Bench("postgres", lambda: opened.postgres(url, clock), ledgers)


def dynamodb_bench(opened: Opened, kind: str, endpoint: str, clock: Clock) -> Bench:
    """A new table on an AWS-compatible server."""
    tables: list[DynamoTable] = []

    async def another() -> Limiter:
        name = tables[0].name if tables else None
        limiter, table = await opened.dynamodb(endpoint, clock, name)
        tables.append(table)
        return limiter

    async def ledgers() -> dict[str, Ledger]:
        return dynamodb_ledgers(await dynamo.scan(tables[0]))

    return Bench(kind, another, ledgers)


def redis_bench(opened: Opened, url: str, clock: Clock) -> Bench:
    """An emptied Valkey that counts for the first time."""
    memory = RequestStarted()
    flush(url)

    async def another() -> Limiter:
        return opened.redis(url, clock, memory)

    async def ledgers() -> dict[str, Ledger]:
        return redis_ledgers(url)

    return Bench("redis", another, ledgers, lambda: flush(url))


def memory_bench(clock: Clock) -> Bench:
    """One process's memory: another limiter is the same one."""
    shelf = SharedLedgers()
    limiter = MemoryLimiter(clock, shelf=shelf, memory=RequestStarted())

    async def another() -> Limiter:
        return limiter

    async def ledgers() -> dict[str, Ledger]:
        return dict(shelf.ledgers)

    return Bench("memory", another, ledgers, limiter.forget)


def flush(url: str) -> None:
    """Empty a Valkey, as a restart would."""
    with Redis.from_url(url) as client:
        client.flushdb()


def redis_ledgers(url: str) -> dict[str, Ledger]:
    """What Valkey keeps, by the ledger's key."""
    prefix = EPOCH_KEY.removesuffix("epoch") + "budget:"
    with Redis.from_url(url, decode_responses=True) as client:
        return {
            str(key).removeprefix(prefix): msgspec.json.decode(
                str(client.get(key)), type=Ledger, strict=False
            )
            for key in client.scan_iter(match="*budget:*")
        }


def dynamodb_ledgers(items: Mapping[tuple[str, str], Any]) -> dict[str, Ledger]:
    """The ledgers among the items of a table, by the ledger's key."""
    return {
        pk.removeprefix("ledger#"): msgspec.msgpack.decode(item["ledger"]["B"], type=Ledger)
        for (pk, sk), item in items.items()
        if sk == "ledger"
    }


async def sqlite_ledgers(path: Path, clock: Clock) -> dict[str, Ledger]:
    database = SqliteDatabase(path, clock)
    await database.open()
    try:
        return await _sql_ledgers(database)
    finally:
        await database.close()


async def _sql_ledgers(database: Database) -> dict[str, Ledger]:
    rows = await database.read(lambda tx: tx.execute(select(budgets.c.key, budgets.c.ledger)).all())
    return {row.key: row.ledger for row in rows}


def alike(ledgers: Mapping[str, Ledger]) -> dict[str, dict[str, Any]]:
    """Ledgers as plain values, without ids, and without what is empty or what a database needs not.

    One backend keeps that, another does not.
    """
    plain = {key: _whole(msgspec.to_builtins(ledger)) for key, ledger in ledgers.items()}
    return {key: ledger for key, ledger in plain.items() if ledger.keys() - {"born"}}


def _whole(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: kept
        for key, each in value.items()
        if key not in ("id", "headroom") and (kept := _whole(each)) not in ({}, 0)
    }


# ---- asking ------------------------------------------------------------------------------------


def ask(
    lane: Lane = Lane.HOT, *, of: str = "connection_1", kind: str = "read", retry: bool = False
) -> BudgetRequest:
    """A request of that lane and connection."""
    return BudgetRequest(lane=lane, connection_id=of, kind=kind, retry=retry)


HOT, COLD = ask(Lane.HOT), ask(Lane.COLD)


async def acquire(limiter: Limiter, budget: Budget, wanted: BudgetRequest = HOT) -> Answer:
    """Ask once, under a name that nobody used before."""
    return await limiter.acquire(budget, wanted, grant_id=f"grant_{next(_numbers)}")


async def granted(limiter: Limiter, budget: Budget, wanted: BudgetRequest = HOT) -> Granted:
    """Ask once; it must be granted."""
    answer = await acquire(limiter, budget, wanted)
    assert isinstance(answer, Granted), answer
    return answer


async def exhausted(limiter: Limiter, budget: Budget, wanted: BudgetRequest = HOT) -> Exhausted:
    """Ask once; it must be refused."""
    answer = await acquire(limiter, budget, wanted)
    assert isinstance(answer, Exhausted), answer
    return answer


async def spend(
    limiter: Limiter, budget: Budget, times: int, wanted: BudgetRequest = HOT
) -> list[Granted]:
    """Ask so many times; each must be granted."""
    return [await granted(limiter, budget, wanted) for _ in range(times)]


async def grants_at_once(
    limiter: Limiter, budget: Budget, times: int, wanted: BudgetRequest = HOT
) -> list[Granted]:
    """Ask until refused, at most so many times; what was granted."""
    answers = [await acquire(limiter, budget, wanted) for _ in range(times)]
    return [each for each in answers if isinstance(each, Granted)]


def reason_of(answer: Answer) -> RefusalReason:
    """What a refused request ran into."""
    assert isinstance(answer, Exhausted), answer
    return answer.reason


def new_ledgers(budget: Budget, *, born: int = 0) -> dict[Scope, Ledger]:
    """Ledgers that nothing was spent from."""
    return {scope: Ledger(born=born) for scope in budget.scopes}


def used_in(ledger: Ledger, limit: Limit) -> dict[int, int]:
    """What was used, by stretch."""
    buckets: Mapping[str, Bucket] = ledger.windows.get(limit.name, {})
    return {int(key): bucket.used for key, bucket in buckets.items()}
