"""How long an import takes, before it starts and while it runs."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.budget import Budget, Limit
from headgate.model.forecast import DayCost, Finish, Forecast, LeftForLive, Requests
from headgate.model.job import Progress, Reason
from headgate.model.pace import Pace
from headgate.model.states import JobState
from headgate.policy.forecast import (
    CHUNKS_MIN,
    EARLIER_CHUNKS,
    OFF_MORE_MAX,
    REQUEST_S,
    SLACK,
    SLACK_S,
    SPEED,
    NeedsRange,
    PaceInputs,
    finish_of,
    forecast,
    is_failing,
    is_foreseeable,
    is_paused,
    needs_of,
    with_earlier,
)
from headgate.policy.windows_ahead import LimitsAhead
from tests.unit.values import make_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STRAVA = Budget(
    "strava",
    [Limit(100, per="15min", only="read", reserve=20), Limit(200, per="day")],
    paced=False,
)
LIMITS = LimitsAhead(budgets={"strava": STRAVA})
NO_LIMITS = LimitsAhead(budgets={})
READS = DayCost(provider="strava", least=1, most=3)
UPLOADS = DayCost(provider="strava", kind="upload", least=0.5, most=1)


def pace(days: float, *, request_s: float = 2.0, requests: float = 1.0, cv: float = 0.0) -> Pace:
    """What so many days took that had so many requests each."""
    day_s = request_s * requests
    return Pace(
        chunks=days,
        units=days,
        seconds=day_s * days,
        squares=day_s**2 * days * (1 + cv**2),
        work_s={"strava": day_s * days},
        requests={"strava": {"read": requests * days}},
    )


def known(**what: Any) -> NeedsRange:
    needs = needs_of(PaceInputs(**what), 100)
    assert needs is not None
    return needs


def spans(finish: Finish) -> tuple[float, float, float]:
    """The seconds from now."""
    ends = (finish.earliest, finish.likely, finish.latest)
    first, likely, last = ((each - NOW).total_seconds() for each in ends)
    return first, likely, last


def slack(likely_s: float) -> float:
    return SLACK_S + SLACK * likely_s


# ---- what is known -----------------------------------------------------------------------------


def test_nothing_known_is_nothing_told() -> None:
    assert needs_of(PaceInputs(), 100) is None
    # A few chunks are too few to tell, and so are chunks that did nothing.
    few = Pace(chunks=4, units=9, seconds=9)
    idle = Pace(chunks=50, seconds=9)
    assert needs_of(PaceInputs(own=few, others=[few, idle]), 100) is None
    assert needs_of(PaceInputs(own=idle), 100) is None


def test_the_users_own_rate_narrows_the_range_the_more_of_it_is_known() -> None:
    widths = []
    for days in (CHUNKS_MIN, 20, 80, 200):
        needs = known(own=pace(days, cv=1.0), others=[pace(50)], costs=[READS])
        assert needs.mean.requests["strava"]["read"] == pytest.approx(1.0)
        widths.append(needs.most.work_s["strava"] - needs.least.work_s["strava"])

    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


def test_users_who_are_the_same_every_day_are_foreseen_better() -> None:
    even, uneven = known(own=pace(50)), known(own=pace(50, cv=1.5))

    assert even.most.work_s["strava"] < uneven.most.work_s["strava"]
    assert even.least.work_s["strava"] > uneven.least.work_s["strava"] > 0


def test_a_single_day_may_be_anything_within_reason() -> None:
    needs = needs_of(PaceInputs(own=pace(6, cv=3.0)), 1)

    assert needs is not None
    assert needs.most.work_s["strava"] == pytest.approx(2 * (1 + OFF_MORE_MAX))


def test_others_tell_the_speed_and_the_sync_what_a_day_costs() -> None:
    needs = known(others=[pace(50, request_s=4.0, requests=9)], costs=[READS, UPLOADS])

    assert needs.least.requests == {"strava": {"read": 1, "upload": 0.5}}
    assert needs.mean.requests == {"strava": {"read": 2, "upload": 0.75}}
    assert needs.most.requests == {"strava": {"read": 3, "upload": 1}}
    assert needs.least.work_s["strava"] == pytest.approx(1.5 * 4 * SPEED[0])
    assert needs.most.work_s["strava"] == pytest.approx(4 * 4 * SPEED[2])


def test_others_also_tell_how_long_the_engine_itself_takes() -> None:
    other = Pace(chunks=10, units=10, seconds=30, squares=90, own_s=30)

    needs = known(others=[other], costs=[READS])

    assert needs.mean.own_s == pytest.approx(3)
    # Of the provider they tell nothing.
    assert needs.least.work_s["strava"] == pytest.approx(REQUEST_S[0])


def test_at_the_very_first_import_speeds_are_assumed() -> None:
    needs = known(costs=[READS])

    assert needs.most.work_s["strava"] == pytest.approx(3 * REQUEST_S[2])
    assert needs.mean.own_s == 0


def test_without_costs_other_users_are_the_measure() -> None:
    needs = known(others=[pace(50, requests=3), pace(50), pace(50, requests=2)])

    assert needs.least.requests["strava"]["read"] < 1
    assert needs.mean.requests["strava"]["read"] == pytest.approx(2)
    assert needs.most.requests["strava"]["read"] > 3


def test_earlier_jobs_of_the_user_count_until_the_present_one_knows_better() -> None:
    early = with_earlier(pace(2, requests=9), [pace(500), pace(500)])
    late = with_earlier(pace(200, requests=9), [pace(500)])

    assert early.chunks == EARLIER_CHUNKS + 2
    assert early.requests["strava"]["read"] / early.units == pytest.approx(1.4, abs=0.1)
    assert late.requests["strava"]["read"] / late.units > 7
    assert with_earlier(pace(3), []) == pace(3)


# ---- the range ---------------------------------------------------------------------------------


def test_a_limit_counts_only_where_it_is_the_bottleneck() -> None:
    needs = known(own=pace(200))

    # 60 reads within every limit take their own time, as if there were none,
    within = spans(finish_of(60, needs, LIMITS, start=NOW))
    assert within == pytest.approx(spans(finish_of(60, needs, NO_LIMITS, start=NOW)), rel=0.02)
    assert within[1] == pytest.approx(120)
    # and 300 wait for the next day, which begins in twelve hours.
    assert spans(finish_of(300, needs, LIMITS, start=NOW))[1] > 12 * 3600


def test_the_range_is_around_what_is_likely() -> None:
    first, likely, last = spans(finish_of(1000, known(own=pace(200)), NO_LIMITS, start=NOW))

    assert likely == pytest.approx(2000)
    assert spans(finish_of(0, known(own=pace(200)), NO_LIMITS, start=NOW)) == (0, 0, 0)
    assert 1500 < first < likely - slack(likely) < likely + slack(likely) < last < 2500


def test_where_only_a_window_is_waited_for_the_end_is_still_not_exact() -> None:
    quick = known(own=pace(200, request_s=0.0001))

    first, likely, last = spans(finish_of(250, quick, LIMITS, start=NOW))

    assert likely - first >= slack(likely) * 0.99 and last - likely >= slack(likely) * 0.99


@given(
    st.integers(0, 400),
    st.floats(5, 300),
    st.floats(0.01, 20),
    st.floats(0.01, 20),
    st.floats(0, 3),
    st.lists(st.floats(0, 500), max_size=3),
)
def test_the_likely_time_lies_in_the_range(
    left: int, days: float, request_s: float, requests: float, cv: float, others: list[float]
) -> None:
    own = pace(days, request_s=request_s, requests=requests, cv=cv)
    limits = LimitsAhead(budgets={"strava": STRAVA}, others=others)

    needs = needs_of(PaceInputs(own=own), left)

    assert needs is not None
    first, likely, last = spans(finish_of(left, needs, limits, start=NOW))
    assert 0 <= first <= likely <= last


# ---- before the start --------------------------------------------------------------------------


def test_requests_are_told_by_provider_and_so_is_what_is_left_for_live_work() -> None:
    costs = [READS, UPLOADS, DayCost(provider="attic", least=1, most=1)]

    # Without costs only days are told.
    assert forecast(30, 5, None, LIMITS, now=NOW) == Forecast(days=30, days_held=5)
    made = forecast(80, 5, known(costs=costs), LIMITS, now=NOW)

    assert (made.days, made.days_held) == (80, 5)
    assert made.requests == (
        Requests(provider="attic", least=80, most=80),
        Requests(provider="strava", least=120, most=320),
    )
    assert made.left_for_live == (
        LeftForLive(provider="strava", limit="read 15min", amount=100, left=20),
    )
    assert made.finish is not None and NOW <= made.finish.earliest < made.finish.latest


# ---- where nobody can tell ---------------------------------------------------------------------

COUNTED = {"progress": Progress(done=1, total=9)}


@pytest.mark.parametrize(
    ("fields", "foreseeable"),
    [
        ({"state": JobState.RUNNING, "reason": Reason.WORKING}, True),
        ({"state": JobState.PENDING, "reason": Reason.MORE}, True),
        # It goes on when the window begins.
        ({"state": JobState.PENDING, "reason": Reason.DEFERRED, "wake_at": NOW}, True),
        ({"state": JobState.PENDING, "reason": Reason.RATE_LIMITED, "wake_at": NOW}, True),
        # Requests fail.
        ({"state": JobState.PENDING, "reason": Reason.RETRYING, "attempts": 1}, False),
        ({"state": JobState.RUNNING, "reason": Reason.WORKING, "error": "Transient: 503"}, False),
        ({"state": JobState.RUNNING, "reason": Reason.WORKING, "recent_errors": (NOW,)}, False),
        ({"state": JobState.PENDING, "reason": Reason.PROBE, "probe": True}, False),
        # A pause that has no end, or whose end proves nothing.
        ({"state": JobState.PAUSED, "reason": Reason.OPERATOR}, False),
        ({"state": JobState.PAUSED, "reason": Reason.BREAKER, "wake_at": NOW}, False),
        ({"state": JobState.RUNNING, "reason": Reason.WORKING, "pause_requested": True}, False),
        ({"state": JobState.PENDING, "reason": Reason.CONNECTION_PAUSED, "wake_at": NOW}, False),
        ({"state": JobState.PENDING, "reason": Reason.NO_LIMITER, "wake_at": NOW}, False),
        ({"state": JobState.PENDING, "reason": Reason.IDLE, "wake_at": NOW}, False),
        # It has no end, or has ended.
        ({"state": JobState.RUNNING, "progress": Progress(done=1)}, False),
        ({"state": JobState.CANCELLING, "reason": Reason.CANCEL_ASKED}, False),
        ({"state": JobState.SUCCESS, "reason": Reason.DONE}, False),
    ],
)
def test_an_end_is_foreseeable_while_nothing_fails_or_waits(
    fields: dict[str, Any], foreseeable: bool
) -> None:
    assert is_foreseeable(make_job(**{**COUNTED, **fields})) is foreseeable


def test_to_fail_and_to_wait_are_two_things() -> None:
    failing = make_job(state=JobState.RUNNING, attempts=1)
    idle = make_job(state=JobState.PENDING, reason=Reason.IDLE)

    assert (is_failing(failing), is_paused(failing)) == (True, False)
    assert (is_failing(idle), is_paused(idle)) == (False, True)
