"""Spending a budget: what is granted, what is refused, and what either leaves behind."""

from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headgate.model.budget import (
    Answer,
    Budget,
    BudgetRequest,
    Exhausted,
    Granted,
    Ledger,
    Limit,
    RefusalReason,
    Scope,
    from_ms,
    to_ms,
)
from headgate.model.job import Lane
from headgate.policy import spending
from tests.limiters import COLD, HOT, STRAVA, new_ledgers, used_in

MIDDAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUARTER_MS = 900_000
DAY_MS = 86_400_000
GUARD_MS = 2000

MOMENTS = st.integers(to_ms(MIDDAY), to_ms(MIDDAY) + 2 * DAY_MS)
LANES = st.sampled_from(Lane)
#: Steps of a run: how long after the last request, in thousandths of the shortest window, and which
#: lane it is of. Many at the same moment, some a whole window later.
STEPS = st.lists(
    st.tuples(st.one_of(st.just(0), st.integers(0, 80), st.integers(0, 1500)), LANES),
    min_size=1,
    max_size=60,
)


@st.composite
def budgets(draw: st.DrawFn, *, paced: bool = False, rolling: bool | None = None) -> Budget:
    """One to three windows of different lengths, with whatever may be declared."""
    lengths = draw(st.lists(st.sampled_from(["2s", "30s", "min", "7min"]), min_size=1, unique=True))
    made = []
    for per in lengths[:3]:
        amount = draw(st.integers(1, 12))
        slides = draw(st.booleans()) if rolling is None else rolling
        made.append(
            Limit(amount, per=per, reserve=draw(st.integers(0, amount - 1)), rolling=slides)
        )
    shortest = min(limit.seconds for limit in made)
    guard = draw(st.sampled_from([0.0, 0.001, 0.1, 0.45])) * shortest
    return Budget("any", made, guard_s=guard, paced=paced, pace_s_min=0.001)


def take(
    budget: Budget,
    ledgers: dict[Scope, Ledger],
    now: int,
    ask: BudgetRequest = HOT,
    grant_id: str = "g",
) -> Answer:
    return spending.take(budget, ledgers, ask, now, grant_id)


def granted(
    budget: Budget, ledgers: dict[Scope, Ledger], now: int, ask: BudgetRequest = HOT
) -> Granted:
    answer = take(budget, ledgers, now, ask)
    assert isinstance(answer, Granted), answer
    return answer


def refusal(
    budget: Budget, ledgers: dict[Scope, Ledger], now: int, ask: BudgetRequest = HOT
) -> Exhausted:
    answer = take(budget, ledgers, now, ask)
    assert isinstance(answer, Exhausted), answer
    return answer


def play(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]]
) -> tuple[dict[Scope, Ledger], list[int], int]:
    """Ask at every step; the ledgers, when something was granted, and the time at the end."""
    ledgers, grants, now = new_ledgers(budget), [], begin
    shortest = min(limit.seconds for limit in budget.limits)
    for after, lane in steps:
        now += after * shortest
        if isinstance(take(budget, ledgers, now, asking(lane)), Granted):
            grants.append(now)
    return ledgers, grants, now


# ---- never over the limit ----------------------------------------------------------------------


@given(budgets(rolling=False), MOMENTS, STEPS, st.data())
def test_no_fixed_window_is_overrun_wherever_in_the_guard_band_a_request_arrives(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], data: st.DataObject
) -> None:
    # Given whatever was granted
    _, grants, _ = play(budget, begin, steps)

    # When each request arrives up to the guard band before or after that, by the provider's clock
    guard = round(budget.guard_s * 1000)
    off = st.integers(-guard, guard)
    arrivals = [at + data.draw(off) for at in grants]

    # Then no window of the provider's has seen more than its amount
    for limit in budget.limits:
        by_window = Counter(at // (limit.seconds * 1000) for at in arrivals)
        assert max(by_window.values(), default=0) <= limit.amount


@given(budgets(rolling=True), MOMENTS, STEPS, st.data())
def test_no_rolling_window_is_overrun_wherever_it_begins(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], data: st.DataObject
) -> None:
    # Given whatever was granted, each request up to the guard band on its way
    _, grants, _ = play(budget, begin, steps)
    guard = round(budget.guard_s * 1000)
    arrivals = sorted(at + data.draw(st.integers(0, guard)) for at in grants)

    # Then within no length of time, wherever it begins, more than the amount has arrived
    for limit in budget.limits:
        for first in arrivals:
            within = sum(first <= at < first + limit.seconds * 1000 for at in arrivals)
            assert within <= limit.amount


@given(budgets(), MOMENTS, STEPS, st.data())
def test_a_provider_that_tells_its_count_changes_nothing_for_the_worse(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], data: st.DataObject
) -> None:
    # Given a provider whose clock is ours, and which tells its count in some of its answers
    ledgers, now = new_ledgers(budget), begin
    arrived: list[int] = []
    shortest = min(limit.seconds for limit in budget.limits)
    for after, lane in steps:
        now += after * shortest
        if isinstance(take(budget, ledgers, now, asking(lane)), Granted):
            arrived.append(now)
            if data.draw(st.booleans()):
                counts = {
                    limit.name: provider_count(limit, arrived, now) for limit in budget.limits
                }
                spending.observe(budget, ledgers, now, now, counts)

    # Then it is still within every limit
    for limit in budget.limits:
        assert all(provider_count(limit, arrived, at) <= limit.amount for at in arrived)


def provider_count(limit: Limit, arrived: list[int], at: int) -> int:
    """What the provider counts at that time, of what arrived by then."""
    length = limit.seconds * 1000
    begins = at - length + 1 if limit.rolling else at // length * length
    return sum(begins <= each <= at for each in arrived)


# ---- refusals ----------------------------------------------------------------------------------


@given(budgets(), MOMENTS, STEPS, LANES)
def test_whoever_comes_back_when_told_is_granted_and_not_before(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], lane: Lane
) -> None:
    # Given a refusal, after any run
    ledgers, _, now = play(budget, begin, steps)
    ask = asking(lane)
    answer = take(budget, ledgers, now, ask)
    assume(isinstance(answer, Exhausted))
    assert isinstance(answer, Exhausted)
    until = to_ms(answer.until)

    # When nobody else asks meanwhile
    early = take(budget, deepcopy(ledgers), until - 1, ask)
    in_time = take(budget, ledgers, until, ask)

    # Then it is early a moment before, and granted at the time
    assert answer.wait_s == (until - now) / 1000
    assert isinstance(early, Exhausted)
    assert isinstance(in_time, Granted)


def test_backfill_that_finds_a_rolling_window_spent_waits_for_the_reserve_too() -> None:
    # Given a rolling window that live work has spent, a second apart
    budget = Budget("rolling", [Limit(2, per="min", reserve=1, rolling=True)], paced=False)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY)
    for second in range(2):
        granted(budget, ledgers, now + second * 1000)

    # When backfill asks
    answer = refusal(budget, ledgers, now + 1000, COLD)

    # Then it is told when both are out, and not when the first is: one must remain
    assert answer.reason is RefusalReason.SPENT
    assert isinstance(take(budget, ledgers, to_ms(answer.until), COLD), Granted)


@given(budgets(paced=True), MOMENTS, STEPS, LANES)
def test_a_refusal_counts_nothing(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], lane: Lane
) -> None:
    # Given a refusal, after any run
    ledgers, _, now = play(budget, begin, steps)
    before = deepcopy(ledgers)
    answer = take(budget, ledgers, now, asking(lane))
    assume(isinstance(answer, Exhausted))
    assert isinstance(answer, Exhausted)

    # Then every ledger is as it was, but for the note that something was refused
    notes = 0
    for scope, ledger in ledgers.items():
        notes += count_of(ledger, answer.reason) - count_of(before[scope], answer.reason)
        before[scope].refusals = ledger.refusals
        assert ledger == before[scope]
    assert notes == 1


def count_of(ledger: Ledger, why: RefusalReason) -> int:
    return sum(getattr(hour, why.value) for hour in ledger.refusals.values())


def asking(lane: Lane) -> BudgetRequest:
    return HOT if lane is Lane.HOT else COLD


@given(MOMENTS, st.integers(0, 4), st.integers(0, 4))
def test_a_request_is_counted_in_all_windows_of_all_scopes_or_in_none(
    now: int, of_app: int, of_connection: int
) -> None:
    # Given an application's window and a connection's, each used somewhat
    budget = Budget(
        "mixed", [Limit(4, per="day"), Limit(4, per="hour", scope=Scope.CONNECTION)], paced=False
    )
    day, hour = budget.limits
    ledgers = new_ledgers(budget)
    for limit, count in ((day, of_app), (hour, of_connection)):
        only = Budget("mixed", [limit], paced=False)
        for _ in range(count):
            spending.charge(only, ledgers, HOT, now)
    before = [used_in(ledgers[limit.scope], limit) for limit in (day, hour)]

    # When a request asks
    answer = take(budget, ledgers, now)

    # Then both count it, or neither does
    after = [used_in(ledgers[limit.scope], limit) for limit in (day, hour)]
    if of_app < 4 and of_connection < 4:
        assert isinstance(answer, Granted)
        for limit_before, limit_after in zip(before, after, strict=True):
            assert sum(limit_after.values()) > sum(limit_before.values())
    else:
        assert isinstance(answer, Exhausted)
        assert after == before


# ---- the seed's rules --------------------------------------------------------------------------


@given(st.integers(2, 60), st.data(), MOMENTS, st.lists(LANES, max_size=80))
def test_backfill_is_refused_exactly_when_less_than_the_reserve_would_remain(
    amount: int, data: st.DataObject, now: int, lanes: list[Lane]
) -> None:
    # Given a window with a fixed reserve, far from its edges
    reserve = data.draw(st.integers(0, amount - 1))
    budget = Budget("seed", [Limit(amount, per="15min", reserve=reserve)], paced=False)
    now = now // QUARTER_MS * QUARTER_MS + 300_000
    ledgers = new_ledgers(budget)
    left = amount

    # When requests of both lanes ask, one after another
    for lane in lanes:
        answer = take(budget, ledgers, now, asking(lane))

        # Then live work passes while anything is left, backfill while the reserve would remain
        passes = left > 0 if lane is Lane.HOT else left - 1 >= reserve
        assert isinstance(answer, Granted) == passes
        if isinstance(answer, Exhausted):
            assert answer.reason is (RefusalReason.SPENT if left == 0 else RefusalReason.RESERVE)
        left -= passes


@pytest.mark.parametrize(("decays", "least_s", "most_s"), [(False, 890, 910), (True, 440, 500)])
def test_a_shrinking_reserve_lets_backfill_go_on_before_the_window_ends(
    decays: bool, least_s: float, most_s: float
) -> None:
    # Given a window of which live work has left half of the reserve
    limit = Limit(100, per="15min", reserve=20)
    budget = Budget("strava", [limit], reserve_decay=decays, paced=False)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY) + GUARD_MS
    for number in range(90):
        granted(budget, ledgers, now + number)

    # Then a fixed one keeps backfill waiting for the next window, a shrinking one for half of this
    answer = refusal(budget, ledgers, now + 90, COLD)
    assert answer.reason is RefusalReason.RESERVE
    assert least_s < answer.wait_s < most_s


def test_live_work_is_never_paced_and_never_delays_backfill() -> None:
    ledgers, now = new_ledgers(STRAVA), to_ms(MIDDAY) + 60_000
    granted(STRAVA, ledgers, now, COLD)
    due = refusal(STRAVA, ledgers, now, COLD).until

    for _ in range(5):
        granted(STRAVA, ledgers, now)

    assert refusal(STRAVA, ledgers, now, COLD).until == due


# ---- 429 ---------------------------------------------------------------------------------------


@given(MOMENTS)
def test_a_429_closes_strava_to_the_next_quarter_hour(now: int) -> None:
    ledgers = new_ledgers(STRAVA)

    until = spending.close_budget(STRAVA, ledgers, "read", now, None)

    assert until == (now // QUARTER_MS + 1) * QUARTER_MS + GUARD_MS


@given(MOMENTS, st.integers(1000, 1200))
def test_a_429_closes_strava_to_midnight_when_the_day_is_spent(now: int, told: int) -> None:
    # Given a day that is spent, as the provider tells, away from midnight
    assume(GUARD_MS <= now % DAY_MS < DAY_MS - GUARD_MS)
    ledgers = new_ledgers(STRAVA)
    at = granted(STRAVA, ledgers, now).at_ms
    spending.observe(STRAVA, ledgers, at, now, {"day": told})

    until = spending.close_budget(STRAVA, ledgers, "read", now, None)

    assert until == (now // DAY_MS + 1) * DAY_MS + GUARD_MS
    assert from_ms(until - GUARD_MS).time().isoformat() == "00:00:00"
    assert refusal(STRAVA, ledgers, now).until == from_ms(until)


@given(MOMENTS, st.floats(-1e6, 1e12))
def test_a_retry_after_is_taken_between_a_second_and_a_day(now: int, retry_after_s: float) -> None:
    until = spending.close_budget(STRAVA, new_ledgers(STRAVA), "read", now, retry_after_s)

    clamped_s = min(max(retry_after_s, 1.0), 25 * 3600.0)
    assert until == pytest.approx(now + clamped_s * 1000, abs=1)


@given(MOMENTS, st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=8))
def test_closing_again_never_opens_sooner(now: int, waits: list[float | None]) -> None:
    ledgers = new_ledgers(STRAVA)

    untils = [spending.close_budget(STRAVA, ledgers, "read", now, wait) for wait in waits]

    assert untils == sorted(untils)
    assert spending.use(STRAVA, ledgers, now).answers_429_24h == len(waits)


@given(MOMENTS)
def test_a_429_that_names_a_limit_which_is_not_declared_is_like_one_without(now: int) -> None:
    unnamed = spending.close_budget(STRAVA, new_ledgers(STRAVA), "read", now, None)

    assert spending.close_budget(STRAVA, new_ledgers(STRAVA), "read", now, None, "week") == unnamed


def test_a_429_of_a_kind_that_nothing_counts_closes_for_a_minute() -> None:
    budget = Budget("uploads", [Limit(5, per="hour", only="upload")], paced=False)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY)

    assert spending.close_budget(budget, ledgers, "read", now, None) == now + 60_000
    assert refusal(budget, ledgers, now).reason is RefusalReason.CLOSED


def test_a_429_of_a_budget_that_limits_nothing_still_says_how_long_to_wait() -> None:
    nothing, now = Budget("nothing", []), to_ms(MIDDAY)

    assert spending.close_budget(nothing, {}, "read", now, None) == now + 60_000


# ---- the provider's counts ---------------------------------------------------------------------


@given(budgets(), MOMENTS, STEPS, st.integers(0, 30), st.integers(0, 1500))
def test_a_count_that_is_told_only_ever_raises_ours(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]], told: int, later: int
) -> None:
    # Given any run, and an answer to its last request
    ledgers, grants, now = play(budget, begin, steps)
    assume(grants)
    now += later
    before = spending.use(budget, ledgers, now)

    # When it tells a count
    counts = {limit.name: told for limit in budget.limits}
    spending.observe(budget, ledgers, grants[-1], now, counts)

    # Then nothing is used less than before
    after = spending.use(budget, ledgers, now)
    for was, now_is in zip(before.windows, after.windows, strict=True):
        assert was.used <= now_is.used <= max(was.used, told)
        assert (was.hot, was.cold, was.retries) == (now_is.hot, now_is.cold, now_is.retries)


@given(budgets(rolling=False), MOMENTS, st.integers(0, 999), st.integers(0, 10_000))
def test_an_answer_of_the_old_window_never_closes_the_new_one(
    budget: Budget, begin: int, place: int, late: int
) -> None:
    # Given a request anywhere in a window, answered when the next one has surely begun
    [limit, *_] = budget.limits
    only = Budget("one", [limit], guard_s=budget.guard_s, paced=False)
    length, guard = limit.seconds * 1000, round(budget.guard_s * 1000)
    edge = (begin // length + 1) * length
    granted_at = edge - length + place * length // 1000
    ledgers = new_ledgers(only)
    assume(granted_at >= edge - length + guard)
    granted(only, ledgers, granted_at)
    now = edge + guard + late
    assume(now < edge + length - guard)
    before = spending.use(only, ledgers, now).windows[0].used

    # When its answer tells that the old one was full, and more
    spending.observe(only, ledgers, granted_at, now, {limit.name: limit.amount + 5})

    # Then the new one is as it was
    assert spending.use(only, ledgers, now).windows[0].used == before


# ---- what was forgotten ------------------------------------------------------------------------


@given(MOMENTS, st.booleans())
def test_a_short_window_that_was_forgotten_counts_as_spent_until_it_is_over(
    born: int, rolling: bool
) -> None:
    # Given a minute of which nobody knows how much was used before
    budget = Budget("minutes", [Limit(5, per="min", rolling=rolling)], paced=False)
    ledgers = new_ledgers(budget, born=born)

    # When somebody asks, and comes back when told to
    answer = refusal(budget, ledgers, born)
    [window] = spending.use(budget, ledgers, born).windows

    # Then it is soon, and from then on the whole window is there
    assert (answer.reason, window.unknown, window.remaining) == (RefusalReason.UNKNOWN, True, 0)
    again: Answer = answer
    now = born
    while isinstance(again, Exhausted):
        now = to_ms(again.until)
        assert now <= born + 60_000 + 2 * GUARD_MS
        again = take(budget, ledgers, now)
    for _ in range(4):
        granted(budget, ledgers, now)
    assert refusal(budget, ledgers, now).reason is RefusalReason.SPENT


# ---- what is told ------------------------------------------------------------------------------


@given(budgets(), MOMENTS, STEPS)
def test_what_is_used_is_told_by_lane(
    budget: Budget, begin: int, steps: list[tuple[int, Lane]]
) -> None:
    ledgers, _, now = play(budget, begin, steps)

    for window in spending.use(budget, ledgers, now).windows:
        assert window.used == window.hot + window.cold
        assert window.remaining == max(0, window.amount - window.used)
        assert now < to_ms(window.resets_at)


def test_refusals_are_forgotten_after_a_day_and_the_ledger_stays_small() -> None:
    # Given a refusal in each of fifty hours
    budget = Budget("tiny", [Limit(1, per="30day")], paced=False)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY)
    granted(budget, ledgers, now)
    for hour in range(50):
        refusal(budget, ledgers, now + hour * 3_600_000)

    # Then the last day's are told, and hardly more are kept
    end = now + 49 * 3_600_000
    assert spending.use(budget, ledgers, end).refused_24h["spent"] == 24
    assert len(ledgers[Scope.APP].refusals) <= 26


def test_old_windows_are_forgotten() -> None:
    # Given a budget that was used for days
    budget = Budget("both", [Limit(5, per="min"), Limit(9, per="min", only="x", rolling=True)])
    ledgers = new_ledgers(budget)
    for minute in range(600):
        spending.charge(
            budget,
            ledgers,
            BudgetRequest(lane=Lane.HOT, connection_id="a", kind="x"),
            minute * 60_000,
        )

    # Then only what still says something is kept
    windows = ledgers[Scope.APP].windows
    assert len(windows["min"]) <= 6
    assert len(windows["x min"]) <= 3


def test_the_time_that_slots_wait_for_is_never_past() -> None:
    # Given slots whose leases end one after another
    budget = Budget("slots", [], slots=3, slot_lease_s=10)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY)
    for number in range(3):
        answer = take(budget, ledgers, now + number * 100, grant_id=f"g{number}")
        assert isinstance(answer, Granted)

    # When somebody asks all the time
    for at in range(now + 300, now + 10_000, 37):
        answer = refusal(budget, ledgers, at)

        # Then it is always told to come back later, and soon
        assert timedelta(0) < answer.until - from_ms(at) <= timedelta(milliseconds=500)
    assert isinstance(take(budget, ledgers, now + 10_000), Granted)


def test_a_slot_that_is_given_back_is_free_at_once_and_only_once() -> None:
    # Given two slots, both taken
    budget = Budget("slots", [], slots=2)
    ledgers, now = new_ledgers(budget), to_ms(MIDDAY)
    first = take(budget, ledgers, now, grant_id="first")
    assert isinstance(first, Granted)
    assert isinstance(take(budget, ledgers, now, grant_id="second"), Granted)

    # When one is given back, twice
    spending.release(budget, ledgers, HOT, first, now)
    spending.release(budget, ledgers, HOT, first, now)

    # Then one may follow, and not two
    assert isinstance(take(budget, ledgers, now, grant_id="third"), Granted)
    assert refusal(budget, ledgers, now).reason is RefusalReason.SLOTS
