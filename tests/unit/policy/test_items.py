"""What becomes of an item after an error, and of the items that would come after it."""

from datetime import timedelta

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
    LimiterUnreachable,
    Malformed,
    NoData,
    RateLimited,
    Transient,
)
from headgate.model.item import LOST
from headgate.model.states import ItemState
from headgate.policy.items import (
    CRASHES_MAX,
    DEFER_S_MAX,
    DEFERRALS_MAX,
    RETRIES_MAX,
    TRANSIENTS_MAX,
    Defer,
    GiveBack,
    GiveUp,
    Retry,
    Unavailable,
    decide,
    ends_batch,
    is_transient,
    rescue,
)
from tests.unit.model.test_item import claimed, make_item

LATER = timedelta(minutes=15)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


@pytest.mark.parametrize("error", [Transient(), Malformed(), RuntimeError("unknown")])
def test_failures_wait_a_minute_then_five_then_for_an_operator(error: Exception) -> None:
    waits = [decide(make_item(retry_count=count), error) for count in range(RETRIES_MAX)]

    assert waits == [Retry(seconds(60)), Retry(seconds(300)), Retry(None)]


def test_a_provider_that_asks_for_a_longer_rest_gets_it_within_a_day() -> None:
    busy = Transient()
    for asked_s, waited_s in ((10.0, 60.0), (600.0, 600.0), (1e9, DEFER_S_MAX)):
        busy.retry_after_s = asked_s
        assert decide(make_item(), busy) == Retry(seconds(waited_s))


def test_what_trying_again_cannot_help_fails_for_good_at_once() -> None:
    assert decide(make_item(), Forbidden()) == Retry(None)


def test_nothing_there_is_an_answer() -> None:
    assert decide(make_item(), NoData()) == Unavailable()


@pytest.mark.parametrize(
    "error",
    [AuthExpired(), GrantRefused(), LimiterUnreachable(LATER), ConnectionPaused(LATER)],
    ids=lambda error: type(error).__name__,
)
def test_what_is_not_the_items_fault_leaves_it_as_it_was(error: Exception) -> None:
    item = make_item(retry_count=RETRIES_MAX - 1, deferrals=DEFERRALS_MAX - 1)

    assert decide(item, error) == GiveBack()
    assert ends_batch(error, 0)


def test_a_429_defers_until_the_reset_and_counts() -> None:
    assert decide(make_item(), RateLimited(LATER)) == Defer(LATER, limited=True, counts=True)


def test_our_own_budget_defers_for_ever_and_does_not_count() -> None:
    item = make_item(deferrals=DEFERRALS_MAX)

    assert decide(item, BudgetSpent(LATER)) == Defer(LATER, limited=False, counts=False)


def test_a_provider_that_puts_an_item_off_for_ever_is_given_up_on() -> None:
    nearly = make_item(deferrals=DEFERRALS_MAX - 2)
    spent = make_item(deferrals=DEFERRALS_MAX - 1)

    assert isinstance(decide(nearly, RateLimited(LATER)), Defer)
    assert decide(spent, RateLimited(LATER)) == GiveUp(limited=True)
    assert decide(spent, Deferred(LATER)) == GiveUp(limited=False)


@given(st.floats(min_value=-1e7, max_value=1e7))
def test_a_deferral_is_never_in_the_past_and_never_longer_than_a_day(after_s: float) -> None:
    decision = decide(make_item(), RateLimited(seconds(after_s)))

    assert isinstance(decision, Defer)
    assert seconds(0) < decision.after <= seconds(DEFER_S_MAX)


def test_a_batch_goes_on_after_what_concerns_one_item_alone() -> None:
    for error in (NoData(), Malformed(), Forbidden(), Transient()):
        assert not ends_batch(error, 1)


@pytest.mark.parametrize("error", [RateLimited(LATER), BudgetSpent(LATER), Deferred(LATER)])
def test_a_batch_ends_where_all_would_have_to_wait(error: Exception) -> None:
    assert ends_batch(error, 0)


def test_a_batch_ends_where_the_provider_seems_to_be_down() -> None:
    assert ends_batch(Transient(), TRANSIENTS_MAX)
    assert not ends_batch(Transient(), TRANSIENTS_MAX - 1)


def test_what_nobody_foresaw_counts_as_transient_and_a_broken_answer_does_not() -> None:
    assert is_transient(Transient()) and is_transient(OSError())
    assert not is_transient(Malformed()) and not is_transient(NoData())


def test_lost_workers_are_forgiven_ever_more_slowly_and_then_no_more() -> None:
    changes = [rescue(claimed(make_item(crashes=count))) for count in range(CRASHES_MAX)]

    assert [made.wake for made in changes] == [
        *(seconds(wait_s) for wait_s in (0, 60, 300, 1800)),
        None,
    ]
    assert [made.after.crashes for made in changes] == [1, 2, 3, 4, 5]
    assert {made.after.retry_count for made in changes} == {0}
    assert [made.edge.target for made in changes[-2:]] == [ItemState.PENDING, ItemState.FAILED]
    assert changes[-1].after.error == LOST
