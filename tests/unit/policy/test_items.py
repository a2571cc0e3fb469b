"""What becomes of an item after an error, and of the items that would come after it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    ConnectionPaused,
    Deferred,
    Forbidden,
    GrantRefused,
    InvalidInput,
    LimiterUnreachable,
    Malformed,
    NoData,
    RateLimited,
    Transient,
)
from headgate.model.states import ItemState
from headgate.policy.items import (
    DEFER_S_MAX,
    TRANSIENTS_MAX,
    DeferItem,
    GiveBack,
    GiveUp,
    ItemRetryPolicy,
    RetryItem,
    Unavailable,
    decide,
    ends_batch,
    is_transient,
    rescue,
)
from tests.unit.model.test_item import claimed, make_item

LATER = timedelta(minutes=15)
POLICY = ItemRetryPolicy()


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


@pytest.mark.parametrize("error", [Transient(), Malformed(), RuntimeError("unknown")])
def test_failures_wait_a_minute_then_five_then_for_an_operator(error: Exception) -> None:
    waits = [
        decide(make_item(retry_count=count), error, POLICY) for count in range(POLICY.failures_max)
    ]

    assert waits == [RetryItem(seconds(60)), RetryItem(seconds(300)), RetryItem(None)]


def test_a_provider_that_asks_for_a_longer_rest_gets_it_within_a_day() -> None:
    busy = Transient()
    for asked_s, waited_s in ((10.0, 60.0), (600.0, 600.0), (1e9, DEFER_S_MAX)):
        busy.retry_after_s = asked_s
        assert decide(make_item(), busy, POLICY) == RetryItem(seconds(waited_s))


def test_what_trying_again_cannot_help_is_over_at_once_and_nothing_there_is_an_answer() -> None:
    assert decide(make_item(), Forbidden(), POLICY) == RetryItem(None)
    assert decide(make_item(), NoData(), POLICY) == Unavailable()


@pytest.mark.parametrize(
    "error",
    [AuthExpired(), GrantRefused(), LimiterUnreachable(LATER), ConnectionPaused(LATER)],
    ids=lambda error: type(error).__name__,
)
def test_what_is_not_the_items_fault_leaves_it_as_it_was(error: Exception) -> None:
    item = make_item(retry_count=POLICY.failures_max - 1, deferrals=POLICY.deferrals_max - 1)

    assert decide(item, error, POLICY) == GiveBack()
    assert ends_batch(error, 0)


def test_a_429_defers_until_the_reset_and_counts_and_our_own_budget_does_not() -> None:
    item = make_item(deferrals=POLICY.deferrals_max)
    limited, spent = (
        DeferItem(LATER, limited=True, counts=True),
        DeferItem(LATER, limited=False, counts=False),
    )

    assert decide(make_item(), RateLimited(LATER), POLICY) == limited
    assert decide(item, BudgetSpent(LATER), POLICY) == spent


def test_a_provider_that_puts_an_item_off_for_ever_is_given_up_on() -> None:
    nearly = make_item(deferrals=POLICY.deferrals_max - 2)
    spent = make_item(deferrals=POLICY.deferrals_max - 1)

    assert isinstance(decide(nearly, RateLimited(LATER), POLICY), DeferItem)
    assert decide(spent, RateLimited(LATER), POLICY) == GiveUp(limited=True)
    assert decide(spent, Deferred(LATER), POLICY) == GiveUp(limited=False)


@given(st.floats(min_value=-1e7, max_value=1e7))
def test_a_deferral_is_never_in_the_past_and_never_longer_than_a_day(after_s: float) -> None:
    decision = decide(make_item(), RateLimited(seconds(after_s)), POLICY)

    assert isinstance(decision, DeferItem)
    assert seconds(0) < decision.after <= seconds(DEFER_S_MAX)


@pytest.mark.parametrize(
    ("error", "transients", "ends"),
    [
        *((error, 1, False) for error in (NoData(), Malformed(), Forbidden(), Transient())),
        *((error, 0, True) for error in (RateLimited(LATER), BudgetSpent(LATER), Deferred(LATER))),
        (Transient(), TRANSIENTS_MAX - 1, False),
        (Transient(), TRANSIENTS_MAX, True),
    ],
)
def test_a_batch_ends_where_all_would_have_to_wait_or_the_provider_seems_to_be_down(
    error: Exception, transients: int, ends: bool
) -> None:
    assert ends_batch(error, transients) is ends


def test_what_nobody_foresaw_counts_as_transient_and_a_broken_answer_does_not() -> None:
    assert is_transient(Transient()) and is_transient(OSError())
    assert not is_transient(Malformed()) and not is_transient(NoData())


def test_lost_workers_are_forgiven_ever_more_slowly_and_then_no_more() -> None:
    items = [claimed(make_item(crashes=count)) for count in range(POLICY.crashes_max)]
    changes = [rescue(item, POLICY) for item in items]

    assert [made.wake for made in changes] == [
        *(seconds(wait_s) for wait_s in (0, 60, 300, 1800)),
        None,
    ]
    assert [made.after.crashes for made in changes] == [1, 2, 3, 4, 5]
    assert {made.after.retry_count for made in changes} == {0}
    assert [made.edge.target for made in changes[-2:]] == [ItemState.PENDING, ItemState.FAILED]
    assert changes[-1].after.error == POLICY.lost_error


# ---- policies ----------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_design() -> None:
    assert POLICY.failures_max == 3
    assert POLICY.backoff_s == (60, 300, 1800)
    assert (POLICY.crashes_max, POLICY.deferrals_max) == (5, 100)


def test_a_collection_decides_how_often_and_how_long() -> None:
    patient = ItemRetryPolicy(failures_max=5, backoff_s=(1, 2), crashes_max=4, deferrals_max=2)

    waits = [decide(make_item(retry_count=count), Transient(), patient) for count in range(5)]
    # The last wait is waited again and again.
    assert waits == [*(RetryItem(seconds(wait_s)) for wait_s in (1, 2, 2, 2)), RetryItem(None)]
    rescued = [rescue(claimed(make_item(crashes=count)), patient) for count in range(4)]
    assert [made.wake for made in rescued] == [*(seconds(wait_s) for wait_s in (0, 1, 2)), None]
    put_off = [decide(make_item(deferrals=count), RateLimited(LATER), patient) for count in (0, 1)]
    assert put_off == [DeferItem(LATER, limited=True, counts=True), GiveUp(limited=True)]


def test_one_attempt_may_be_all_there_is() -> None:
    hasty = ItemRetryPolicy(failures_max=1, crashes_max=1, deferrals_max=1)

    assert decide(make_item(), Transient(), hasty) == RetryItem(None)
    assert decide(make_item(), RateLimited(LATER), hasty) == GiveUp(limited=True)
    assert rescue(claimed(make_item()), hasty).edge.target is ItemState.FAILED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("failures_max", 0),
        ("crashes_max", -1),
        ("deferrals_max", 10**9),
        ("backoff_s", ()),
        ("backoff_s", (60, -1)),
        ("backoff_s", (float("nan"),)),
        ("backoff_s", (float("inf"),)),
    ],
    ids=str,
)
def test_a_policy_that_could_not_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"retry.{field}"):
        ItemRetryPolicy(**{field: value})


def test_a_worker_that_could_not_write_is_no_crash() -> None:
    made = rescue(claimed(make_item(crashes=99)), POLICY, counts=False)

    assert made.edge.target is ItemState.PENDING
    assert made.after.crashes == 99
