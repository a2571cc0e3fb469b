"""What `ports/limiter.py` promises, held against every limiter: windows, lanes, kinds, scopes."""

import asyncio
from datetime import UTC, datetime, timedelta

from headgate.base.clock import ManualClock
from headgate.model.budget import Budget, Exhausted, Granted, Limit, RefusalReason, Scope
from headgate.model.job import Lane
from headgate.policy import spending
from headgate.ports.limiter import Limiter
from headgate.store.ledgers import LedgerOperation
from headgate.store.sql.budgets import ledgers as budgets
from headgate.store.sql.budgets.limiter import SqlLimiter
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests.conformance.databases import on_postgres, under_way
from tests.limiters import (
    COLD,
    HOT,
    STRAVA,
    Bench,
    acquire,
    ask,
    exhausted,
    granted,
    reason_of,
    spend,
    twice_decided,
)
from tests.stores import until_one_waits

NOON_05 = datetime(2026, 1, 5, 12, 5, tzinfo=UTC)
QUARTER = datetime(2026, 1, 5, 12, 15, tzinfo=UTC)
GUARD = timedelta(seconds=2)

TINY = Budget("tiny", [Limit(3, per="15min"), Limit(5, per="day")], paced=False)
ROLLING = Budget("rolling", [Limit(3, per="min", rolling=True)], paced=False, guard_s=0)
EACH = Budget(
    "each", [Limit(2, per="hour", scope=Scope.CONNECTION), Limit(5, per="day")], paced=False
)


async def used(limiter: Limiter, budget: Budget, *, of: str | None = None) -> dict[str, int]:
    """What is used of each window."""
    use = await limiter.use(budget, connection_id=of)
    return {window.limit: window.used for window in use.windows}


# ---- windows -----------------------------------------------------------------------------------


async def test_a_grant_says_what_is_left_of_the_tightest_window(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a budget of two windows, of which nothing is used
    # When a request asks
    answer = await limiter.acquire(TINY, HOT, grant_id="grant_a")

    # Then it is counted in both, and told of the one that runs out first
    assert answer == Granted(
        id="grant_a", at_ms=round(NOON_05.timestamp() * 1000), remaining=2, resets_at=QUARTER
    )
    assert await used(limiter, TINY) == {"15min": 1, "day": 1}


async def test_a_spent_window_refuses_until_it_ends_and_counts_nothing(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a window that is spent
    await spend(limiter, TINY, 3)
    before = await used(limiter, TINY)

    # When one more asks
    answer = await acquire(limiter, TINY)

    # Then it is told when to come back: when the guard band is over too
    until = QUARTER + GUARD
    assert answer == Exhausted(reason=RefusalReason.SPENT, until=until, wait_s=602.0, limit="15min")
    assert await used(limiter, TINY) == before

    # And a moment before it is still too early, and then it is not
    clock.advance(601.999)
    assert reason_of(await acquire(limiter, TINY)) is RefusalReason.SPENT
    clock.advance(0.001)
    assert (await granted(limiter, TINY)).remaining == 1


@twice_decided
async def test_close_to_an_edge_a_request_counts_on_both_sides(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a request a second and a half before the quarter ends
    clock.advance(598.5)
    await spend(limiter, TINY, 2)
    assert await used(limiter, TINY) == {"15min": 2, "day": 2}

    # When the next quarter has begun
    clock.advance(3.5)

    # Then it begins with what may have arrived in it
    assert await used(limiter, TINY) == {"15min": 2, "day": 2}
    await granted(limiter, TINY)
    assert reason_of(await acquire(limiter, TINY)) is RefusalReason.SPENT


@twice_decided
async def test_a_full_window_holds_the_first_moments_of_the_next(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a quarter that is spent
    await spend(limiter, TINY, 3)

    # When the next has begun, but by the provider's clock perhaps not
    clock.advance(601)
    answer = await exhausted(limiter, TINY)

    # Then requests wait until it surely has
    assert (answer.reason, answer.until) == (RefusalReason.SPENT, QUARTER + GUARD)
    clock.advance(answer.wait_s)
    await granted(limiter, TINY)


@twice_decided
async def test_a_limit_of_one_kind_leaves_other_requests_alone(limiter: Limiter) -> None:
    # Given a budget that limits uploads, and everything
    budget = Budget(
        "kinds", [Limit(1, per="hour", only="upload"), Limit(3, per="hour")], paced=False
    )

    # When the uploads are spent
    await granted(limiter, budget, ask(kind="upload"))
    answer = await exhausted(limiter, budget, ask(kind="upload"))

    # Then reads still pass, and the limit of everything has counted both
    assert answer.limit == "upload hour"
    await spend(limiter, budget, 2)
    assert await used(limiter, budget) == {"upload hour": 1, "hour": 3}
    assert (await exhausted(limiter, budget)).limit == "hour"


async def test_budgets_of_two_sources_know_nothing_of_each_other(limiter: Limiter) -> None:
    other = Budget("other", TINY.limits, paced=False)
    await spend(limiter, TINY, 3)

    assert (await granted(limiter, other)).remaining == 2


async def test_each_connection_has_its_own_and_all_share_the_applications(limiter: Limiter) -> None:
    # Given a connection that has spent its own
    await spend(limiter, EACH, 2, ask(of="a"))
    answer = await exhausted(limiter, EACH, ask(of="a"))
    assert answer.limit == "hour per connection"

    # When others spend theirs, until the application's day is spent
    await spend(limiter, EACH, 2, ask(of="b"))
    await granted(limiter, EACH, ask(of="c"))
    answer = await exhausted(limiter, EACH, ask(of="c"))

    # Then it is the day that refuses, and what was refused counts for nobody
    assert (answer.reason, answer.limit) == (RefusalReason.SPENT, "day")
    assert await used(limiter, EACH, of="a") == {"hour per connection": 2, "day": 5}
    assert await used(limiter, EACH, of="c") == {"hour per connection": 1, "day": 5}
    assert await used(limiter, EACH, of="d") == {"hour per connection": 0, "day": 5}
    assert await used(limiter, EACH) == {"day": 5}


# ---- lanes -------------------------------------------------------------------------------------


@twice_decided
async def test_backfill_leaves_the_reserve_and_live_work_takes_it(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given Strava's hundred, of which live work has used seventy-nine
    await spend(limiter, STRAVA, 79)

    # When backfill asks: twenty would remain, and then nineteen
    assert (await granted(limiter, STRAVA, COLD)).remaining == 20
    clock.advance(60)
    answer = await exhausted(limiter, STRAVA, COLD)

    # Then the second is refused until the next window, and live work takes what is left
    assert (answer.reason, answer.until) == (RefusalReason.RESERVE, QUARTER + GUARD)
    assert (await spend(limiter, STRAVA, 20))[-1].remaining == 0
    assert reason_of(await acquire(limiter, STRAVA)) is RefusalReason.SPENT


@twice_decided
async def test_backfill_waits_a_second_however_much_is_left(limiter: Limiter) -> None:
    plenty = Budget("plenty", [Limit(100_000, per="15min", reserve=20)])
    await granted(limiter, plenty, COLD)

    assert (await exhausted(limiter, plenty, COLD)).wait_s == 1.0


@twice_decided
async def test_the_reserve_shrinks_with_the_window_where_it_may(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given ten left of a hundred, in the middle of a window that keeps twenty, half of it now
    budget = Budget(
        "decays", [Limit(100, per="15min", reserve=20)], reserve_decay=True, paced=False
    )
    clock.advance(150)
    await limiter.charge(budget, COLD, times=90)
    [window] = (await limiter.use(budget, connection_id=None)).windows
    assert (window.remaining, window.reserved) == (10, 10)

    # When backfill asks now, and when it was told to
    answer = await exhausted(limiter, budget, COLD)
    clock.advance(answer.wait_s)

    # Then the first was refused, and the second is granted long before the window ends
    assert answer.reason is RefusalReason.RESERVE
    assert answer.until < QUARTER
    await granted(limiter, budget, COLD)


@twice_decided
async def test_a_reserve_that_may_not_shrink_is_kept_to_the_end_of_the_window(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given fifteen left in the middle of a window: more than would be kept if it shrank
    budget = Budget("fixed", [Limit(100, per="15min", reserve=20)], paced=False)
    clock.advance(150)
    await limiter.charge(budget, COLD, times=85)

    # When backfill asks, then it waits for the next window
    answer = await exhausted(limiter, budget, COLD)
    assert (answer.reason, answer.until) == (RefusalReason.RESERVE, QUARTER + GUARD)


# ---- many at once ------------------------------------------------------------------------------


async def test_of_many_that_ask_at_once_as_many_pass_as_there_is_room(
    limiter: Limiter, bench: Bench
) -> None:
    # Given a limit of twenty, and two processes
    budget = Budget("race", [Limit(20, per="hour"), Limit(30, per="day")], paced=False)
    both = [limiter, await bench.another()]

    # When sixty requests ask at the same time
    answers = await asyncio.gather(
        *(acquire(both[number % 2], budget, ask(retry=number % 3 == 0)) for number in range(60))
    )

    # Then twenty pass, each counted, and every other is told why
    passed = [each for each in answers if isinstance(each, Granted)]
    assert sorted(each.remaining or 0 for each in passed) == list(range(20))
    assert {reason_of(each) for each in answers if each not in passed} == {RefusalReason.SPENT}
    assert await used(limiter, budget) == {"hour": 20, "day": 20}


@on_postgres
async def test_who_asks_while_another_process_counts_waits_for_its_count(
    database: PostgresDatabase, store_url: str
) -> None:
    # Given room for one more request, which another process has taken and not yet committed
    budget = Budget("meanwhile", [Limit(2, per="hour")], paced=False)
    limiter = SqlLimiter(database)
    await granted(limiter, budget)
    moment = database.moment()
    taken = LedgerOperation(
        budget,
        HOT.connection_id,
        lambda ledgers, now: spending.take(budget, ledgers, HOT, now, "elsewhere"),
    )

    # When this process asks meanwhile
    async with under_way(database, lambda tx: budgets.spend(tx, moment, [taken])):
        asked = asyncio.create_task(acquire(limiter, budget))
        await until_one_waits(store_url)

    # Then it finds the room taken
    assert reason_of(await asked) is RefusalReason.SPENT
    assert await used(limiter, budget) == {"hour": 2}


async def test_pacing_is_one_for_all_processes(limiter: Limiter, bench: Bench) -> None:
    # Given backfill of one process
    elsewhere = await bench.another()
    await granted(limiter, STRAVA, COLD)

    # When another process's asks
    answer = await exhausted(elsewhere, STRAVA, COLD)

    # Then it waits as if it were the same
    assert answer.reason is RefusalReason.PACE
    again = await exhausted(limiter, STRAVA, COLD)
    # Not for how long: that DynamoDB refuses a write and is asked again takes a moment.
    assert (again.reason, again.until, again.limit) == (answer.reason, answer.until, answer.limit)


async def test_a_caller_that_gives_up_leaves_the_answers_of_others_alone(limiter: Limiter) -> None:
    # Given a budget, and callers that are cut off while their question is on its way
    budget = Budget("cut", [Limit(1000, per="hour")], paced=False)
    for turns in range(12):
        asked = asyncio.create_task(acquire(limiter, budget))
        for _ in range(turns):
            await asyncio.wait([asked], timeout=0)
        asked.cancel()
        await asyncio.wait([asked])

        # When others ask something else right after
        use, answer = await asyncio.gather(
            limiter.use(budget, connection_id=None),
            limiter.acquire(budget, HOT, grant_id=f"mine_{turns}"),
        )

        # Then each gets the answer to its own question
        assert isinstance(answer, Granted)
        assert (answer.id, use.source) == (f"mine_{turns}", "cut")

    # And nothing that was counted is missing
    [window] = (await limiter.use(budget, connection_id=None)).windows
    assert 12 <= window.used <= 24


@twice_decided
async def test_a_budget_without_limits_grants_and_counts_nothing(limiter: Limiter) -> None:
    budget = Budget("slots alone", [], slots=5)

    for lane in Lane:
        answer = await granted(limiter, budget, ask(lane))
        assert (answer.remaining, answer.resets_at) == (None, None)


async def test_a_limiter_is_closed_twice_without_harm(limiter: Limiter) -> None:
    await granted(limiter, STRAVA)

    await limiter.close()
    await limiter.close()
