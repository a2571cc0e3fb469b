"""Declaring a budget: what could never work is refused, with the names of what is wrong."""

from typing import Any

import pytest

from headgate import Budget, InvalidInput, Limit, Scope


@pytest.mark.parametrize(
    ("per", "seconds"),
    [("30s", 30), ("min", 60), ("15min", 900), ("hour", 3600), ("2h", 7200), ("day", 86400)],
)
def test_a_window_is_as_long_as_it_says(per: str, seconds: int) -> None:
    assert Limit(1, per=per).seconds == seconds


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (Limit(0, per="15min"), "at least 1"),
        (Limit(-5, per="15min"), "at least 1"),
        (Limit(100, per="15min", reserve=-1), "must not be negative"),
        (Limit(100, per="15min", reserve=100), "must be below the amount"),
        (Limit(100, per="15min", reserve=101), "must be below the amount"),
        (Limit(100, per="fortnight"), "is not known"),
        (Limit(100, per="15 lightyears"), "is not known"),
        (Limit(100, per=""), "is not known"),
        (Limit(100, per="0min"), "between a second and 31 days"),
        (Limit(100, per="400day"), "between a second and 31 days"),
        (Limit(100, per="3s"), "below half of the window"),
    ],
)
def test_a_bad_limit_is_refused_by_source_and_limit(limit: Limit, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Budget("strava", [Limit(1000, per="day"), limit])

    assert refused.value.field == f"strava.Limit({limit.amount}, per={limit.per!r})"
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"slots": 0}, "strava.slots"),
        ({"slot_lease_s": 0}, "strava.slot_lease_s"),
        ({"slot_lease_s": float("inf")}, "strava.slot_lease_s"),
        ({"guard_s": -1}, "strava.guard_s"),
        ({"guard_s": float("nan")}, "strava.guard_s"),
        ({"pace_s_min": -1}, "strava.pace_s_min"),
        ({"limits": [Limit(1, per="day"), Limit(2, per="day")]}, "strava.limits"),
        ({"source": ""}, "source"),
        ({"source": "a\nb"}, "source"),
    ],
)
def test_a_bad_budget_is_refused_by_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Budget(**{"source": "strava", "limits": [Limit(10, per="day")]} | fields)

    assert refused.value.field == field


def test_limits_of_different_kinds_may_share_a_window() -> None:
    budget = Budget("strava", [Limit(100, per="15min", only="read"), Limit(200, per="15min")])

    assert [limit.name for limit in budget.limits] == ["read 15min", "15min"]


def test_an_application_and_each_connection_may_share_a_window() -> None:
    # Google's: so many a minute for the project, and for each user.
    each = Limit(300, per="min", scope=Scope.CONNECTION)
    budget = Budget("google", [Limit(120_000, per="min"), each])

    assert [limit.name for limit in budget.limits] == ["min", "min per connection"]


def test_each_scope_has_a_ledger_of_its_own() -> None:
    budget = Budget("google", [Limit(300, per="min", scope=Scope.CONNECTION)], slots=4)

    assert budget.scopes == (Scope.APP, Scope.CONNECTION)
    assert budget.ledger_key(Scope.APP, "ada") == "google"
    assert budget.ledger_key(Scope.CONNECTION, "ada") == "google/ada"


def test_budgets_declared_alike_are_equal_and_hash_alike() -> None:
    one, other = (Budget("strava", [Limit(10, per="day")]) for _ in range(2))

    assert one == other
    assert hash(one) == hash(other)
