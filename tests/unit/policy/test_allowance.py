"""What limits allow the jobs of a schedule."""

from headgate.model.budget import Budget, Limit, Scope
from headgate.model.job import Lane
from headgate.policy.allowance import Allowance, allowance_of

BUDGET = Budget(
    "here",
    [
        Limit(100, per="15min", reserve=20),
        Limit(1000, per="day"),
        Limit(10, per="min", only="upload"),
        Limit(5, per="min", scope=Scope.CONNECTION),
        Limit(300, per="hour", only="read"),
    ],
    pace_s_min=2.0,
)


def test_without_a_budget_anything_goes() -> None:
    free = allowance_of(None, Lane.HOT)

    assert free.requests_a_day is None
    assert free.requests_at_once(60) is None
    assert free.distance_s(3, 3600) == free.steady_distance_s(3) == 0


def test_live_work_may_use_the_reserve_and_is_not_paced() -> None:
    assert allowance_of(BUDGET, Lane.HOT) == Allowance(
        windows=((100, 900), (1000, 86_400), (300, 3600))
    )


def test_a_backfill_leaves_the_reserve_and_keeps_its_pace() -> None:
    assert allowance_of(BUDGET, Lane.COLD) == Allowance(
        windows=((80, 900), (1000, 86_400), (300, 3600)), pace_s=2.0
    )
    unpaced = Budget("here", [Limit(100, per="hour")], paced=False)
    assert allowance_of(unpaced, Lane.COLD).pace_s == 0


def test_jobs_are_as_far_apart_as_the_windows_within_the_time_need() -> None:
    allowance = Allowance(windows=((100, 900), (1000, 86_400)))

    # The day's limit is no matter of distance if all jobs are within an hour of it.
    assert allowance.distance_s(1, 3600) == 9
    assert allowance.distance_s(2, 86_400) == 2 * 86.4
    assert allowance.distance_s(1, 60) == 0
    assert allowance.steady_distance_s(1) == 86.4
    assert Allowance(pace_s=5).distance_s(2, 60) == Allowance(pace_s=5).steady_distance_s(2) == 10


def test_a_long_window_may_be_used_up_at_once_but_not_in_every_hour() -> None:
    allowance = Allowance(windows=((100, 900), (1000, 86_400)))

    assert allowance.requests_at_once(3600) == 400
    assert allowance.requests_at_once(4 * 3600) == 1000
    assert allowance.requests_in_each(3600) == 41
    assert allowance.requests_a_day == 1000
    assert Allowance(pace_s=10).requests_at_once(60) == 6
