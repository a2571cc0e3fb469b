"""Freshness as a goal: who is due, who starts when, and what it would take."""

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.candidate import Candidate, FreshPlan
from headgate.model.schedule import Schedule, SkipReason
from headgate.model.user import Frequency
from headgate.policy.allowance import Allowance
from headgate.policy.freshness import due_at, look_every, plan_fresh
from tests.unit.policy.candidates import DAY, TICK, candidate

NOW = TICK
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def fresh(**fields: Any) -> Schedule:
    return Schedule(**{"name": "fresh", "sync": "steps", "fresh_within": "24h", **fields})


def plan(
    candidates: list[Candidate],
    schedule: Schedule | None = None,
    allowance: Allowance | None = None,
    **fields: Any,
) -> FreshPlan:
    return plan_fresh(schedule or fresh(), candidates, allowance or Allowance(), now=NOW, **fields)


def synced(number: int, ago: timedelta, **fields: Any) -> Candidate:
    """A user whose last job succeeded so long ago."""
    return candidate(number, succeeded_at=NOW - ago, ended_at=NOW - ago, **fields)


def users(planned: FreshPlan) -> list[str]:
    return [start.candidate.user_id for start in planned.starts]


@pytest.mark.parametrize(
    ("goal", "rest"), [("5m", "1m"), ("6h", "7m30s"), ("24h", "30m"), ("30d", "30m")]
)
def test_the_scheduler_looks_in_time_but_does_not_poll(goal: str, rest: str) -> None:
    spans = {"1m": MINUTE, "7m30s": 7.5 * MINUTE, "30m": 30 * MINUTE}

    assert look_every(fresh(fresh_within=goal)) == spans[rest]


@pytest.mark.parametrize(
    ("user", "goal", "due_in"),
    [
        (synced(1, timedelta(0)), "24h", 23 * HOUR),
        (synced(1, timedelta(0)), "1h", 54 * MINUTE),
        # After a failure the next job waits.
        (candidate(1, succeeded_at=NOW - 2 * DAY, ended_at=NOW), "24h", 6 * HOUR),
        (candidate(1, succeeded_at=None, ended_at=NOW - HOUR), "24h", 5 * HOUR),
        # A user may want it less often.
        (synced(1, timedelta(0), frequency=Frequency.WEEKLY), "24h", 7 * DAY - HOUR),
        (synced(1, timedelta(0), frequency=Frequency.MONTHLY), "24h", 31 * DAY - HOUR),
        (synced(1, timedelta(0), frequency=Frequency.WEEKLY), "10d", 10 * DAY - HOUR),
    ],
)
def test_a_job_starts_before_the_data_is_too_old(
    user: Candidate, goal: str, due_in: timedelta
) -> None:
    assert due_at(fresh(fresh_within=goal), user) == NOW + due_in


def test_the_stalest_go_first_and_who_is_fresh_gets_no_job() -> None:
    planned = plan([synced(1, 24 * HOUR), synced(2, 30 * HOUR), candidate(3), synced(4, HOUR)])

    assert users(planned) == ["user_3", "user_2", "user_1"]
    assert [start.at for start in planned.starts] == [NOW, NOW + 2 * MINUTE, NOW + 4 * MINUTE]
    assert planned.next_check_at == NOW + 30 * MINUTE


def test_who_is_due_before_the_next_look_starts_then() -> None:
    planned = plan([synced(1, 23 * HOUR - 20 * MINUTE), synced(2, 23 * HOUR - 31 * MINUTE)])

    assert [(start.candidate.user_id, start.at) for start in planned.starts] == [
        ("user_1", NOW + 20 * MINUTE)
    ]


def test_the_limits_decide_how_many_start_and_the_others_wait_for_the_next_look() -> None:
    many = [candidate(number) for number in range(60)]
    squeezed = plan(many)
    assert len(squeezed.starts) == 60
    assert squeezed.starts[-1].at == NOW + 59 * 0.5 * MINUTE

    limited = plan(many, allowance=Allowance(windows=((60, 3600),)))
    assert len(limited.starts) == 30
    assert not limited.skips


def test_what_is_left_of_the_budget_limits_the_jobs_too() -> None:
    stale = [candidate(number) for number in range(5)]

    assert len(plan(stale, left=3).starts) == 3
    assert len(plan(stale, fresh(requests=2), left=3).starts) == 1
    assert plan(stale, left=0).starts == ()


@pytest.mark.parametrize(
    ("user", "reason", "counts"),
    [
        (candidate(1, paused=True), SkipReason.USER_PAUSED, 0),
        (candidate(1, last_login_at=None), SkipReason.INACTIVE, 0),
        # Who has an active job gets no second one, and still counts.
        (synced(1, 2 * DAY, active_job_id="job_1"), SkipReason.JOB_ACTIVE, 1),
    ],
)
def test_paused_and_inactive_users_are_no_part_of_the_goal(
    user: Candidate, reason: SkipReason, counts: int
) -> None:
    planned = plan([user])

    assert planned.starts == ()
    assert [skip.reason for skip in planned.skips] == [reason]
    assert planned.freshness.users == counts


def test_the_report_says_who_is_stale_and_what_it_would_take() -> None:
    crowd = [synced(1, HOUR), synced(2, 25 * HOUR), candidate(3)]
    report = plan(crowd).freshness

    assert [each.user_id for each in report.stale] == ["user_3", "user_2"]
    assert (report.users, report.requests_allowed_a_day, report.reachable) == (3, None, None)
    # Three users, each every 23 hours.
    assert report.requests_needed_a_day == 4


def test_a_budget_that_is_not_enough_is_told_with_the_goal_that_it_is_enough_for() -> None:
    crowd = [synced(number, HOUR) for number in range(1000)]
    report = plan(crowd, allowance=Allowance(windows=((500, 86_400),))).freshness

    assert (report.requests_needed_a_day, report.requests_allowed_a_day) == (1044, 500)
    assert report.reachable is not None and timedelta(hours=50) < report.reachable < 3 * DAY
    enough = plan(crowd, allowance=Allowance(windows=((1044, 86_400),))).freshness
    assert enough.reachable is None
    nothing = plan(crowd, allowance=Allowance(windows=((1, 30 * 86_400),))).freshness
    assert (nothing.requests_allowed_a_day, nothing.reachable) == (0, None)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=80),
    st.sampled_from([Allowance(), Allowance(windows=((60, 3600),)), Allowance(pace_s=20)]),
)
def test_starts_are_in_order_before_the_next_look_and_within_the_limits(
    ages: list[tuple[int, bool]], allowance: Allowance
) -> None:
    crowd = [
        synced(number, hours * HOUR) if known else candidate(number)
        for number, (hours, known) in enumerate(ages)
    ]
    planned = plan(crowd, allowance=allowance)

    times: list[datetime] = [start.at for start in planned.starts]
    assert times == sorted(times)
    assert all(NOW <= at < planned.next_check_at for at in times)
    distance = timedelta(seconds=allowance.steady_distance_s(1))
    assert all(other - one >= distance for one, other in itertools.pairwise(times))
    assert len(set(users(planned))) == len(times)
