"""Budgets: acquires a second in SQL and in Redis beside the bare command, and how exact."""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing

import asyncpg
from redis.asyncio import Redis

from bench.report import Report, console, is_quick
from bench.workload import addresses, opened
from headgate import App, Budget, Lane, Limit
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.base.ids import UlidIds
from headgate.limits.redis import RedisLimiter
from headgate.model.budget import BudgetRequest, Granted
from headgate.ports.limiter import Limiter
from headgate.store.sql.budgets.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests.servers import valkey

#: Requests that ask at the same time, as a busy worker's do.
AT_ONCE = 50
#: Large enough that nothing is refused while rates are measured.
WIDE = Budget("wide", [Limit(10**9, per="15min", reserve=20), Limit(10**9, per="day")])
#: Small enough that everybody is refused in the end.
NARROW = [Limit(500, per="day")]
ASK = BudgetRequest(lane=Lane.HOT, connection_id="connection-1")

Acquire = Callable[[int], Awaitable[object]]


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("budget")
    with addresses() as found, valkey() as server:
        event_loop.run(measure(report, found, server.url, count=1_000 if quick else 10_000))
    report.print()


async def measure(report: Report, found: dict[str, str], redis_url: str, *, count: int) -> None:
    """Each limiter, then its bare driver, on the same server."""
    over = 0
    for name, address in found.items():
        console.print(f"[bold]{name}[/]: acquires a second")
        async with opened(address) as app:
            await rates(report, name, app._limiter, bare(name, app), count=count)
            over += await overshoot(name, [SqlLimiter(app._database) for _ in range(4)])
    console.print("[bold]redis[/]: acquires a second")
    async with opened(found["sqlite"]) as app, AsyncExitStack() as stack:
        limiters = [await stack.enter_async_context(in_redis(redis_url, app)) for _ in range(4)]
        plain = Redis.from_url(redis_url)
        stack.push_async_callback(plain.aclose)
        await rates(report, "redis", limiters[0], lambda _: plain.incr("bare"), count=count)
        over += await overshoot("redis", limiters)
    report.add_safety("overshoot", over, "requests", ", four limiters on one budget, each in turn")


@asynccontextmanager
async def in_redis(url: str, app: App) -> AsyncIterator[Limiter]:
    """A limiter of its own, as another process would have."""
    ids = UlidIds(app.clock, random.Random(0))
    limiter = RedisLimiter(url, SqlLimiterMemory(app._database, "redis"), app.clock, ids)
    try:
        yield limiter
    finally:
        await limiter.close()


async def rates(
    report: Report, name: str, limiter: Limiter, bare_one: Acquire, *, count: int
) -> None:
    """So many acquires, many at once and one by one, and the bare command as often."""

    async def acquire(number: int) -> None:
        answer = await limiter.acquire(WIDE, ASK, grant_id=f"grant-{number}")
        assert isinstance(answer, Granted), answer

    rate = await rate_of(acquire, count, AT_ONCE)
    bare_rate = await rate_of(bare_one, count, AT_ONCE)
    report.add(f"{name}_acquires_per_s", rate, "acquires/s", f", {AT_ONCE} at once")
    report.add(f"{name}_bare_per_s", bare_rate, "commands/s", ", bare counter")
    report.add(f"{name}_ratio_to_bare", rate / bare_rate, "of bare")
    single = await rate_of(acquire, count // 10, 1)
    bare_single = await rate_of(bare_one, count // 10, 1)
    report.add(f"{name}_single_acquires_per_s", single, "acquires/s", ", one by one")
    report.add(f"{name}_single_ratio_to_bare", single / bare_single, "of bare")


async def rate_of(one: Acquire, count: int, at_once: int) -> float:
    """How many a second, so many at once."""
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await one(number)

    await one(-1)
    began = time.perf_counter()
    await asyncio.gather(*[some() for _ in range(at_once)])
    return count / (time.perf_counter() - began)


async def overshoot(name: str, limiters: list[Limiter] | list[SqlLimiter]) -> int:
    """Grants above the limit, when limiters that know nothing of each other ask for too much."""
    # A budget of its own, because Redis keeps its headroom in the database that SQL counts in.
    budget = Budget(f"narrow {name}", NARROW, guard_s=0.0)
    amount = NARROW[0].amount
    asked = [
        limiters[number % len(limiters)].acquire(budget, ASK, grant_id=f"grant-{number}")
        for number in range(2 * amount)
    ]
    answers = await asyncio.gather(*asked)
    granted = sum(isinstance(answer, Granted) for answer in answers)
    assert granted, "nothing was granted, so nothing was tried"
    return max(0, granted - amount)


def bare(name: str, app: App) -> Acquire:
    """The bare driver, counting one up durably where there is room, once for each request."""
    if isinstance(app._database, PostgresDatabase):
        return BarePostgres(app._database.dsn).count_up
    return BareSqlite(str(getattr(app._database, "path", ""))).count_up


_MAKE = "CREATE TABLE IF NOT EXISTS bare (key TEXT PRIMARY KEY, used BIGINT NOT NULL)"
_FILL = "INSERT INTO bare VALUES ('strava', 0) ON CONFLICT DO NOTHING"
_COUNT = "UPDATE bare SET used = used + 1 WHERE key = 'strava' AND used < 1000000000"


class BarePostgres:
    """One connection each for as many as ask at once."""

    def __init__(self, dsn: str) -> None:
        """Connect when first asked."""
        self._dsn = dsn
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None

    async def count_up(self, _: int) -> object:
        """One durable count."""
        if self._pool is None:
            self._pool = await asyncpg.create_pool(self._dsn, min_size=10, max_size=10)
            await self._pool.execute(_MAKE)
            await self._pool.execute(_FILL)
        return await self._pool.execute(_COUNT)


class BareSqlite:
    """One connection, in the loop's own thread: SQLite takes one writer anyway."""

    def __init__(self, file: str) -> None:
        """Open the file."""
        self._connection = sqlite3.connect(file, isolation_level=None)
        for statement in ("PRAGMA synchronous = FULL", _MAKE, _FILL):
            with closing(self._connection.execute(statement)):
                pass

    async def count_up(self, _: int) -> object:
        """One durable count."""
        return self._connection.execute(_COUNT)


if __name__ == "__main__":
    main()
