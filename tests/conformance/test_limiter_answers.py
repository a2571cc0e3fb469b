"""What limiters learn from answers, what they lease, and what they tell: on every limiter."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import HeadgateError
from headgate.model.budget import (
    Budget,
    BudgetClosure,
    Granted,
    Limit,
    RefusalReason,
    Scope,
    Unreachable,
)
from headgate.ports.limiter import Limiter
from headgate.store.sql.budgets.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests.limiters import (
    COLD,
    HOT,
    STRAVA,
    Bench,
    Opened,
    acquire,
    ask,
    exhausted,
    granted,
    grants_at_once,
    reason_of,
    spend,
    twice_decided,
)
from tests.servers import unused_port

NOON_05 = datetime(2026, 1, 5, 12, 5, tzinfo=UTC)
QUARTER = datetime(2026, 1, 5, 12, 15, tzinfo=UTC)
MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)
GUARD = timedelta(seconds=2)

SLOTS = Budget("slots", [Limit(100, per="hour")], slots=2, slot_lease_s=60, paced=False)


def closed_for(wait: timedelta) -> BudgetClosure:
    """From the beginning on, by the limiter's clock."""
    return BudgetClosure(until=NOON_05 + wait, wait_s=wait.total_seconds())


# ---- slots -------------------------------------------------------------------------------------


@twice_decided
async def test_a_request_needs_a_slot_as_well_as_room(limiter: Limiter) -> None:
    # Given two requests under way
    first, _ = await spend(limiter, SLOTS, 2)

    # When a third asks, and again after one is over
    answer = await exhausted(limiter, SLOTS)
    await limiter.release(SLOTS, HOT, first)

    # Then it is told to look again soon, counts nothing, and passes when a slot is free
    assert (answer.reason, answer.limit) == (RefusalReason.SLOTS, None)
    assert 0 < answer.wait_s <= 0.5
    assert (await granted(limiter, SLOTS)).remaining == 97
    assert reason_of(await acquire(limiter, SLOTS)) is RefusalReason.SLOTS


@twice_decided
async def test_a_free_slot_is_no_way_around_a_spent_window(limiter: Limiter) -> None:
    budget = Budget("both", [Limit(1, per="hour")], slots=5, paced=False)
    await limiter.release(budget, HOT, await granted(limiter, budget))

    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT


async def test_a_slot_whose_worker_died_is_free_after_its_lease(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given two slots that nobody gives back, taken ten seconds apart
    await granted(limiter, SLOTS)
    clock.advance(10)
    await granted(limiter, SLOTS)

    # When the first lease is about to end, and has ended
    clock.advance(49.9)
    early = await exhausted(limiter, SLOTS)
    clock.advance(early.wait_s)

    # Then its slot is free, and only that
    assert early.wait_s == pytest.approx(0.1)
    await granted(limiter, SLOTS)
    assert reason_of(await acquire(limiter, SLOTS)) is RefusalReason.SLOTS
    assert (await limiter.use(SLOTS, connection_id=None)).slots_used == 2


async def test_slots_may_be_counted_for_each_connection(limiter: Limiter) -> None:
    budget = Budget("each", [], slots=1, slots_scope=Scope.CONNECTION)
    held = await granted(limiter, budget, ask(of="a"))

    assert reason_of(await acquire(limiter, budget, ask(of="a"))) is RefusalReason.SLOTS
    await granted(limiter, budget, ask(of="b"))
    await limiter.release(budget, ask(of="a"), held)
    await granted(limiter, budget, ask(of="a"))


async def test_slots_are_shared_by_all_processes(limiter: Limiter, bench: Bench) -> None:
    elsewhere = await bench.another()
    first, _ = await spend(limiter, SLOTS, 2)

    assert reason_of(await acquire(elsewhere, SLOTS)) is RefusalReason.SLOTS
    await elsewhere.release(SLOTS, HOT, first)
    await granted(elsewhere, SLOTS)


# ---- on the way when a window ends -------------------------------------------------------------

EDGES = Budget("edges", [Limit(10, per="15min")], slots=20, paced=False)
#: The bench's clock is at five past noon, so far before the next window.
TO_THE_EDGE_S = 600.0


@twice_decided
async def test_what_is_on_its_way_over_an_edge_takes_room_on_the_other_side(
    limiter: Limiter, bench: Bench, clock: ManualClock
) -> None:
    # Given four requests that the network holds up until the next window has begun
    clock.advance(TO_THE_EDGE_S - 5)
    held_up = await spend(limiter, EDGES, 4)
    clock.advance(8)

    # When as many as possible are sent in it, by another process too
    sent = await grants_at_once(await bench.another(), EDGES, 10)
    answer = await exhausted(limiter, EDGES)

    # Then they and those that are held up are as many as it allows
    assert len(sent) == 6
    assert (answer.reason, answer.limit) == (RefusalReason.SLOTS, "15min")
    assert 0 < answer.wait_s <= 0.5

    # And so it stays when those have ended: they may have arrived in it
    for each in held_up:
        await limiter.release(EDGES, HOT, each)
    assert reason_of(await acquire(limiter, EDGES)) is RefusalReason.SPENT


@twice_decided
async def test_what_is_on_its_way_when_its_process_dies_counts_on_the_other_side(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given four requests over the edge of a window, whose processes die with them on their way
    clock.advance(TO_THE_EDGE_S - 5)
    await spend(limiter, EDGES, 4)

    # When their slots have ended, in the next window
    clock.advance(5 + EDGES.slot_lease_s)

    # Then they count in it like those that have ended: they may have arrived in it
    assert len(await grants_at_once(limiter, EDGES, 10)) == 6
    assert reason_of(await acquire(limiter, EDGES)) is RefusalReason.SPENT


@twice_decided
async def test_backfill_leaves_the_reserve_beside_what_is_on_its_way(
    limiter: Limiter, clock: ManualClock
) -> None:
    budget = Budget("edges", [Limit(10, per="15min", reserve=3)], slots=10, paced=False)
    clock.advance(TO_THE_EDGE_S - 5)
    await spend(limiter, budget, 4)
    clock.advance(8)

    assert len(await grants_at_once(limiter, budget, 10, COLD)) == 3
    assert len(await grants_at_once(limiter, budget, 10, HOT)) == 3


@twice_decided
async def test_what_ends_in_the_window_of_its_grant_or_counts_in_both_is_not_counted_again(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given one that ended in its window, and one so close to the edge that it counts on both sides
    early = await granted(limiter, EDGES)
    clock.advance(60)
    await limiter.release(EDGES, HOT, early)
    clock.advance(TO_THE_EDGE_S - 61)
    close = await granted(limiter, EDGES)

    # When that one ends long after
    clock.advance(60)
    await limiter.release(EDGES, HOT, close)

    # Then it counts once in the new window
    [window] = (await limiter.use(EDGES, connection_id=None)).windows
    assert window.used == 1


@twice_decided
async def test_without_slots_what_was_late_is_counted_when_it_ends(
    limiter: Limiter, clock: ManualClock
) -> None:
    budget = Budget("no slots", [Limit(10, per="15min")], paced=False)
    clock.advance(TO_THE_EDGE_S - 5)
    late = await granted(limiter, budget)
    clock.advance(8)
    await limiter.release(budget, HOT, late)

    assert len(await grants_at_once(limiter, budget, 20)) == 9


@twice_decided
async def test_in_a_rolling_window_a_late_request_counts_from_its_end_and_once(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a rolling minute, and a request that ended twenty seconds after its grant
    budget = Budget("rolling", [Limit(10, per="min", rolling=True)], paced=False)
    late = await granted(limiter, budget)
    clock.advance(20)
    await limiter.release(budget, HOT, late)

    # When a minute has passed since the grant, and since its end
    counted = []
    for seconds in (0, 45, 20):
        clock.advance(seconds)
        counted.append((await limiter.use(budget, connection_id=None)).windows[0].used)

    # Then it is out of the window only then
    assert counted == [1, 1, 0]


# ---- the provider's counts ---------------------------------------------------------------------


async def test_the_providers_count_corrects_ours_upwards(limiter: Limiter) -> None:
    # Given three requests of ours
    *_, last = await spend(limiter, STRAVA, 3)

    # When the answer says that ninety-nine were used: something else uses the same key
    await limiter.observe(STRAVA, HOT, last, {"15min": 99, "day": 400})

    # Then one is left, and what we know of both is told
    assert (await granted(limiter, STRAVA)).remaining == 0
    quarter, day = (await limiter.use(STRAVA, connection_id=None)).windows
    assert (quarter.used, quarter.hot, quarter.theirs) == (100, 4, 99)
    assert (day.used, day.hot, day.theirs) == (401, 4, 400)


@twice_decided
async def test_the_providers_count_never_lowers_ours_nor_counts_what_is_not_declared(
    limiter: Limiter,
) -> None:
    # Given ten requests, of which the provider has seen five: the rest is on its way
    *_, last = await spend(limiter, STRAVA, 10)
    for counts in ({"15min": 5}, {"15min": 4}, {"month": 10_000}, {}):
        await limiter.observe(STRAVA, HOT, last, counts)

    quarter, day = (await limiter.use(STRAVA, connection_id=None)).windows
    assert (quarter.used, quarter.theirs, day.theirs) == (10, 5, None)
    assert (await granted(limiter, STRAVA)).remaining == 89


@twice_decided
async def test_a_rolling_windows_count_is_corrected_as_a_whole(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given two requests in a rolling minute
    budget = Budget("rolling", [Limit(10, per="min", rolling=True)], paced=False)
    await granted(limiter, budget)
    clock.advance(20)
    second = await granted(limiter, budget)

    # When the provider counts nine
    await limiter.observe(budget, HOT, second, {"min": 9})

    # Then one is left
    await granted(limiter, budget)
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT


# ---- 429 ---------------------------------------------------------------------------------------


async def test_a_429_closes_the_budget_for_everybody_until_the_quarter_ends(
    limiter: Limiter, bench: Bench, clock: ManualClock
) -> None:
    # Given a provider that refuses, and does not say for how long
    elsewhere = await bench.another()
    await granted(limiter, STRAVA)
    closed = await limiter.close_budget(STRAVA, HOT, retry_after_s=None)
    assert closed == closed_for(QUARTER + GUARD - NOON_05)

    # When anybody asks: another process, lane, kind, connection
    answers = [
        await exhausted(elsewhere, STRAVA, wanted)
        for wanted in (HOT, COLD, ask(kind="upload"), ask(of="somebody else"))
    ]

    # Then all wait for the same moment, and pass then
    assert {each.wait_s for each in answers} == {closed.wait_s}
    assert {(each.reason, each.until) for each in answers} == {(RefusalReason.CLOSED, closed.until)}
    assert (await limiter.use(STRAVA, connection_id=None)).closed_until == closed.until
    clock.advance(answers[0].wait_s)
    await granted(elsewhere, STRAVA)
    assert (await limiter.use(STRAVA, connection_id=None)).closed_until is None


@twice_decided
async def test_a_429_that_says_how_long_is_believed_within_reason(limiter: Limiter) -> None:
    # The longest come last: none opens what another has closed for longer.
    for said_s, closed_s in ((-5.0, 1), (0.0, 1), (1.5, 1.5), (90.0, 90), (10**9, 25 * 3600)):
        closed = await limiter.close_budget(STRAVA, HOT, retry_after_s=said_s)

        assert closed == closed_for(timedelta(seconds=closed_s))
        assert (await exhausted(limiter, STRAVA)).until == closed.until


@twice_decided
async def test_a_429_that_does_not_say_how_long_closes_for_what_its_limits_say(
    limiter: Limiter,
) -> None:
    # Given a budget of which the quarter is spent and the day too, as the provider tells; one that
    # limits nothing, and one with a rolling window
    grant = await granted(limiter, STRAVA)
    await limiter.observe(STRAVA, HOT, grant, {"15min": 100, "day": 1000})
    nothing = Budget("nothing", [])
    await granted(limiter, nothing)
    rolling = Budget("rolling", [Limit(100, per="hour", rolling=True)], paced=False)

    # Then they are closed until midnight, for a minute, and for a minute
    minute = timedelta(minutes=1)
    for budget, closed in (
        (STRAVA, MIDNIGHT + GUARD - NOON_05),
        (nothing, minute),
        (rolling, minute),
    ):
        told = await limiter.close_budget(budget, HOT, retry_after_s=None)
        assert told == closed_for(closed)
    told = await limiter.close_budget(nothing, HOT, retry_after_s=5)
    assert told == closed_for(timedelta(seconds=5))


@twice_decided
async def test_a_429_of_one_connections_limit_closes_that_connection(limiter: Limiter) -> None:
    budget = Budget("fitbit", [Limit(150, per="hour", scope=Scope.CONNECTION)], paced=False)
    await limiter.close_budget(budget, ask(of="a"), retry_after_s=None)

    assert reason_of(await acquire(limiter, budget, ask(of="a"))) is RefusalReason.CLOSED
    await granted(limiter, budget, ask(of="b"))


async def test_a_429_that_names_the_applications_limit_closes_it_for_every_connection(
    limiter: Limiter,
) -> None:
    hourly = Limit(500, per="hour", scope=Scope.CONNECTION, rolling=True)
    budget = Budget("foursquare", [hourly, Limit(1000, per="day")], paced=False)

    mine = await limiter.close_budget(budget, ask(of="a"), retry_after_s=60, limit=hourly.name)
    assert mine == closed_for(timedelta(minutes=1))
    assert reason_of(await acquire(limiter, budget, ask(of="a"))) is RefusalReason.CLOSED
    await granted(limiter, budget, ask(of="b"))

    all_of_us = await limiter.close_budget(budget, ask(of="a"), retry_after_s=None, limit="day")
    assert all_of_us == closed_for(MIDNIGHT + GUARD - NOON_05)
    assert (await exhausted(limiter, budget, ask(of="b"))).until == all_of_us.until


# ---- what is told ------------------------------------------------------------------------------


@twice_decided
async def test_requests_that_were_sent_unasked_are_counted_whatever_is_left(
    limiter: Limiter,
) -> None:
    # Given a budget of three, of which two are used
    budget = Budget("tiny", [Limit(3, per="hour")], paced=False)
    await spend(limiter, budget, 2)

    # When four are told that were sent without asking
    await limiter.charge(budget, ask(retry=True), times=4)

    # Then all are counted, and nothing is left
    [window] = (await limiter.use(budget, connection_id=None)).windows
    assert (window.used, window.remaining, window.hot, window.retries) == (6, 0, 6, 4)
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT


async def test_it_is_told_who_spent_what(limiter: Limiter, clock: ManualClock) -> None:
    # Given live requests, one of them repeated, and backfill
    await spend(limiter, STRAVA, 3)
    await granted(limiter, STRAVA, ask(retry=True))
    await granted(limiter, STRAVA, COLD)

    # When the budget is looked at
    use = await limiter.use(STRAVA, connection_id=None)

    # Then each window says how it stands, and backfill when it goes on
    quarter, day = use.windows
    assert (use.source, use.connection_id) == ("strava", None)
    assert (quarter.limit, quarter.amount, quarter.scope) == ("15min", 100, Scope.APP)
    assert (quarter.used, quarter.remaining, quarter.reserved) == (5, 95, 20)
    assert (quarter.hot, quarter.cold, quarter.retries, quarter.theirs) == (4, 1, 1, None)
    assert (quarter.resets_at, day.resets_at) == (QUARTER, MIDNIGHT)
    assert (day.used, day.remaining, day.reserved, day.unknown) == (5, 995, 0, False)
    assert use.next_cold_at == NOON_05 + timedelta(milliseconds=600_000 // 95)
    assert (use.slots_used, use.slots) == (0, None)


@twice_decided
async def test_a_budget_that_was_never_used_is_whole(limiter: Limiter) -> None:
    use = await limiter.use(STRAVA, connection_id="nobody")

    assert [window.remaining for window in use.windows] == [100, 1000]
    assert (use.closed_until, use.next_cold_at, use.slots_used) == (None, None, 0)
    assert set(use.refused_24h.values()) == {0}


async def test_refusals_are_told_by_what_they_ran_into(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given backfill that was paced twice and yielded once, and live work that found nothing left
    budget = Budget("told", [Limit(10, per="15min", reserve=5)], slots=9, slot_lease_s=200)
    await granted(limiter, budget, COLD)
    for _ in range(2):
        assert reason_of(await acquire(limiter, budget, COLD)) is RefusalReason.PACE
    clock.advance(120)
    await spend(limiter, budget, 5)
    assert reason_of(await acquire(limiter, budget, COLD)) is RefusalReason.RESERVE
    await spend(limiter, budget, 3)
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SLOTS
    clock.advance(130)
    await granted(limiter, budget)
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT

    # When the provider refuses too, and one more asks
    await limiter.close_budget(budget, HOT, retry_after_s=5000)
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.CLOSED

    # Then each is told once for each time
    use = await limiter.use(budget, connection_id=None)
    assert use.refused_24h == {
        "spent": 1,
        "reserve": 1,
        "pace": 2,
        "closed": 1,
        "slots": 1,
        "unknown": 0,
    }
    assert use.answers_429_24h == 1


async def test_what_was_refused_is_told_for_a_day(limiter: Limiter, clock: ManualClock) -> None:
    # Given two answers with 429, six hours apart
    await limiter.close_budget(STRAVA, HOT, retry_after_s=1)
    clock.advance(6 * 3600)
    await limiter.close_budget(STRAVA, HOT, retry_after_s=1)

    # When the day passes
    told = []
    for hours in (0, 17, 1, 6):
        clock.advance(hours * 3600)
        told.append((await limiter.use(STRAVA, connection_id=None)).answers_429_24h)

    # Then each is told for its own
    assert told == [2, 2, 1, 0]


# ---- out of reach ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis", "dynamodb"])
async def test_a_limiter_out_of_reach_says_so_and_raises_nothing_of_a_drivers(
    kind: str, opened: Opened, clock: ManualClock, tmp_path: Path
) -> None:
    # Given a limiter whose server is not there
    limiter = await out_of_reach(kind, opened, clock, tmp_path)
    grant = Granted(id="grant", at_ms=0, remaining=1, resets_at=None)

    # When it is asked
    answer = await acquire(limiter, SLOTS)

    # Then it is told, and whoever has something to say to it hears of it
    assert isinstance(answer, Unreachable)
    assert answer.error
    told: list[Coroutine[Any, Any, object]] = [
        limiter.charge(SLOTS, HOT, times=1),
        limiter.release(SLOTS, HOT, grant),
        limiter.observe(SLOTS, HOT, grant, {"hour": 1}),
        limiter.close_budget(SLOTS, HOT, retry_after_s=None),
        limiter.use(SLOTS, connection_id=None),
    ]
    for each in told:
        with pytest.raises(HeadgateError):
            await each


async def out_of_reach(kind: str, opened: Opened, clock: ManualClock, folder: Path) -> Limiter:
    nowhere = f"127.0.0.1:{unused_port()}"
    match kind:
        case "dynamodb":
            return (await opened.dynamodb(f"http://{nowhere}", clock, "none"))[0]
        case "redis":
            return opened.redis(f"redis://{nowhere}/0", clock)
        case "postgres":
            return SqlLimiter(PostgresDatabase(f"postgresql://nobody@{nowhere}/none", clock))
        case _:
            return SqlLimiter(SqliteDatabase(folder / "never opened.db", clock))


async def test_it_is_remembered_that_a_limiter_elsewhere_has_begun(database: Database) -> None:
    # Given a database that knows of no limiter
    one, other = SqlLimiterMemory(database, "redis"), SqlLimiterMemory(database, "valkey")
    assert not await one.has_begun()

    # When one begins, and begins again
    await one.note_begun()
    await one.note_begun()

    # Then it is known of that one
    assert await one.has_begun()
    assert not await other.has_begun()


# ---- a clock that is set back ------------------------------------------------------------------


@twice_decided
async def test_a_clock_that_is_set_back_forgets_nothing_of_a_rolling_window(
    limiter: Limiter, clock: ManualClock
) -> None:
    # Given a rolling minute whose three requests are spent
    budget = Budget("set back", [Limit(3, per="min", rolling=True)], paced=False, guard_s=0)
    for _ in range(3):
        await granted(limiter, budget, HOT)

    # When the clock is set back by half of it
    clock.advance(-30)

    # Then nothing more is granted: the provider has not forgotten them either
    assert (await exhausted(limiter, budget, HOT)).reason is RefusalReason.SPENT
