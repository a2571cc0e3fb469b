"""How long an import takes, before it starts and while it runs."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.budget import Budget, BudgetUse, Limit, Scope, WindowUse
from headgate.model.forecast import DayCost, Forecast, LeftForLive, Requests
from headgate.model.job import Progress
from headgate.policy.forecast import LATER, SAMPLES_MIN, SOONER, eta, forecast

NOW = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)
STRAVA = Budget(
    "strava",
    [Limit(100, per="15min", only="read", reserve=20), Limit(200, per="15min")],
    paced=False,
)
READS = DayCost(provider="strava", least=1, most=2)
UPLOADS = DayCost(provider="strava", kind="upload", least=0.5, most=1)


def told(days: int, *costs: DayCost, others: int = 0, use: BudgetUse | None = None) -> Forecast:
    uses = {} if use is None else {"strava": use}
    return forecast(days, 0, costs, {"strava": STRAVA}, uses, others=others, now=NOW)


def window(limit: str, *, amount: int, remaining: int, reserved: int = 0) -> WindowUse:
    return WindowUse(
        limit=limit,
        scope=Scope.APP,
        amount=amount,
        used=amount - remaining,
        remaining=remaining,
        reserved=reserved,
        resets_at=NOW + timedelta(minutes=10),
        hot=0,
        cold=0,
        retries=0,
        theirs=None,
    )


def use(*windows: WindowUse) -> BudgetUse:
    return BudgetUse(
        source="strava",
        connection_id=None,
        windows=windows,
        closed_until=None,
        next_cold_at=None,
        slots_used=0,
        slots=None,
        refused_24h={},
        answers_429_24h=0,
    )


def minutes(at: datetime) -> float:
    return (at - NOW).total_seconds() / 60


def test_without_costs_only_days_are_told() -> None:
    assert told(30) == Forecast(days=30, days_held=0)


def test_requests_are_told_by_provider_and_so_is_what_is_left_for_live_work() -> None:
    made = told(80, READS, UPLOADS)

    assert made.requests == (Requests(provider="strava", least=120, most=240),)
    assert made.left_for_live == (
        LeftForLive(provider="strava", limit="read 15min", amount=100, left=20),
    )


def test_the_tightest_limit_says_how_long_it_takes() -> None:
    # 80 to 160 reads, of 80 that backfill may have in a window; 120 to 240 of 200 of any kind.
    finish = told(80, READS, UPLOADS).finish

    assert finish is not None
    assert minutes(finish.earliest) == pytest.approx(15 * SOONER)
    assert minutes(finish.latest) == pytest.approx(30 * LATER)


def test_others_who_do_the_same_take_their_share() -> None:
    alone, shared = told(80, READS).finish, told(80, READS, others=3).finish

    assert alone is not None and shared is not None
    assert shared.earliest == alone.earliest
    assert minutes(shared.latest) == pytest.approx(4 * minutes(alone.latest))


def test_what_is_left_of_this_window_is_used_first() -> None:
    spent = use(window("read 15min", amount=100, remaining=20, reserved=20))
    half = use(window("read 15min", amount=100, remaining=60, reserved=20))

    # Nothing is left: ten minutes to the next window, and that one whole.
    finish = told(80, READS, use=spent).finish
    assert finish is not None
    assert minutes(finish.earliest) == pytest.approx(25 * SOONER)
    # 40 are left: they last these ten minutes, and the other 40 half a window.
    finish = told(80, READS, use=half).finish
    assert finish is not None
    assert minutes(finish.earliest) == pytest.approx(17.5 * SOONER)


def test_what_fits_into_this_window_is_spread_over_what_is_left_of_it() -> None:
    roomy = use(window("read 15min", amount=100, remaining=100, reserved=20))

    # 40 of the 80 that backfill may have in the next ten minutes.
    finish = told(40, READS, use=roomy).finish

    assert finish is not None
    assert minutes(finish.earliest) == pytest.approx(5 * SOONER)


def test_a_window_that_counts_other_requests_holds_nothing_up() -> None:
    # Given no read left, and a job that only uploads
    spent = use(window("read 15min", amount=100, remaining=0, reserved=20))

    finish = told(200, UPLOADS, use=spent).finish

    # Then 100 uploads take half of a window of 200
    assert finish is not None
    assert minutes(finish.earliest) == pytest.approx(7.5 * SOONER)


def test_a_paced_budget_is_never_faster_than_its_pace() -> None:
    slow = Budget("strava", [Limit(1000, per="min")], pace_s_min=3.0)

    made = forecast(20, 0, [READS], {"strava": slow}, {}, others=0, now=NOW)

    assert made.finish is not None
    assert minutes(made.finish.earliest) == pytest.approx(1.0 * SOONER)


def test_a_provider_without_a_budget_holds_nothing_up() -> None:
    made = forecast(20, 5, [READS], {}, {}, others=0, now=NOW)

    assert made.finish is not None
    assert (made.finish.earliest, made.finish.latest) == (NOW, NOW)
    assert (made.days, made.days_held) == (20, 5)


# While it runs.


def at(*seconds: float) -> list[datetime]:
    """Times of chunks, the latest first."""
    return [NOW + timedelta(seconds=each) for each in sorted(seconds, reverse=True)]


def test_a_few_chunks_are_too_few_to_tell() -> None:
    progress = Progress(done=4, total=100)

    assert eta(progress, at(*range(SAMPLES_MIN - 1)), rests_until=None) is None
    assert eta(Progress(done=4), at(*range(50)), rests_until=None) is None


def test_an_even_pace_goes_on() -> None:
    finish = eta(Progress(done=11, total=111), at(*range(0, 110, 10)), rests_until=None)

    assert finish is not None
    latest_chunk = NOW + timedelta(seconds=100)
    assert finish.earliest == latest_chunk + timedelta(seconds=1000 * SOONER)
    assert finish.latest == latest_chunk + timedelta(seconds=1000 * LATER)


def test_waits_between_bursts_make_the_range_wide() -> None:
    burst = at(*range(20), *range(900, 920))

    finish = eta(Progress(done=40, total=140), burst, rests_until=None)

    assert finish is not None
    assert finish.latest - finish.earliest > timedelta(minutes=30)


def test_a_job_that_rests_begins_again_when_its_rest_is_over() -> None:
    rests_until = NOW + timedelta(hours=1)

    finish = eta(Progress(done=11, total=111), at(*range(0, 110, 10)), rests_until=rests_until)

    assert finish is not None
    assert finish.earliest == rests_until + timedelta(seconds=1000 * SOONER)


@given(st.lists(st.integers(0, 10**6), min_size=SAMPLES_MIN, max_size=150), st.integers(0, 10**4))
def test_the_earliest_is_never_after_the_latest(seconds: list[int], left: int) -> None:
    progress = Progress(done=len(seconds), total=len(seconds) + left)

    finish = eta(progress, at(*seconds), rests_until=None)

    assert finish is not None
    assert at(*seconds)[0] <= finish.earliest <= finish.latest
