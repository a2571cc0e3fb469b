"""What every database keeps for a limiter elsewhere, which may lose all its counts."""

import asyncio

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreUnavailable
from headgate.limits.memory import MemoryLimiter
from headgate.model.budget import Budget, Limit, RefusalReason, Scope, Unreachable, to_ms
from headgate.store.sql.budgets.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.engine.database import Database
from tests.limiters import HOT, acquire, grants_at_once, reason_of

BUDGET = Budget(
    "far away",
    [Limit(20, per="15min"), Limit(12, per="hour", scope=Scope.CONNECTION, rolling=True)],
    paced=False,
)


@pytest.fixture
def memory(database: Database) -> SqlLimiterMemory:
    return SqlLimiterMemory(database, "far away")


async def test_whatever_is_lost_the_database_knows_what_was_granted(
    memory: SqlLimiterMemory, database: Database, clock: ManualClock
) -> None:
    # Given a limiter that has granted five at once, and another process of the same database
    clock.advance(300)
    limiter = MemoryLimiter(clock, memory=memory)
    await asyncio.gather(*(acquire(limiter, BUDGET) for _ in range(5)))

    # When it loses all, twice, with one request between
    limiter.forget()
    await acquire(limiter, BUDGET)
    limiter.forget()
    elsewhere = MemoryLimiter(clock, memory=SqlLimiterMemory(database, "far away"))

    # Then exactly the rest is granted, by whoever asks
    assert len(await grants_at_once(elsewhere, BUDGET, 20)) == 6
    assert reason_of(await acquire(elsewhere, BUDGET)) is RefusalReason.SPENT


async def test_a_limiter_in_the_database_goes_on_from_the_same_ledgers(
    memory: SqlLimiterMemory, database: Database, clock: ManualClock
) -> None:
    # Given a limiter elsewhere that is given up
    clock.advance(300)
    limiter = MemoryLimiter(clock, memory=memory)
    await grants_at_once(limiter, BUDGET, 10)

    # Then the database's own begins with what was granted
    assert len(await grants_at_once(SqlLimiter(database), BUDGET, 10)) == 2


async def test_answers_with_429_are_counted_for_the_limit_that_they_were_of(
    memory: SqlLimiterMemory, clock: ManualClock
) -> None:
    at_ms = to_ms(clock.now())
    for scope in (Scope.APP, Scope.CONNECTION, Scope.CONNECTION):
        await memory.count_429(BUDGET, HOT.connection_id, scope, at_ms=at_ms)

    ledgers = await memory.ledgers(BUDGET, HOT.connection_id)

    counted = {
        scope: [each.by_provider for each in ledger.refusals.values()]
        for scope, ledger in ledgers.items()
    }
    assert counted == {Scope.APP: [1], Scope.CONNECTION: [2]}
    assert set(await memory.ledgers(BUDGET, None)) == {Scope.APP}


async def test_while_the_database_is_away_nothing_is_granted(
    memory: SqlLimiterMemory,
    database: Database,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def is_away(*_: object) -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(database, "write", is_away)

    answer = await acquire(MemoryLimiter(clock, memory=memory), BUDGET)

    assert answer == Unreachable(error="the database does not answer")
