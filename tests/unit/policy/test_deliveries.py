"""What becomes of a delivery after an attempt, and how long it waits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import InvalidInput
from headgate.model.delivery import (
    Acceptance,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.lease import AT_ONCE
from headgate.model.states import DeliveryState
from headgate.policy.deliveries import (
    BACKOFF_S_MAX,
    RETRY_AFTER_S_MAX,
    DeliveryRetryPolicy,
    rescue,
    settle_attempt,
)
from tests.unit.model.test_delivery import claimed, make_delivery

POLICY = DeliveryRetryPolicy()
SENDING = claimed(make_delivery(attempts=2, crashes=1))

draws = st.floats(0, 1)
counts = st.integers(0, 10**9)
policies = st.builds(
    DeliveryRetryPolicy,
    base_s=st.floats(0.01, BACKOFF_S_MAX),
    max_s=st.floats(0.01, BACKOFF_S_MAX),
)


@given(policies, counts, draws)
def test_a_wait_is_of_the_formula_and_at_most_a_quarter_shorter(
    policy: DeliveryRetryPolicy, attempts: int, draw: float
) -> None:
    # The exponent is cut here only to keep the number finite; every base is above 0.01.
    full_s = min(2.0 ** min(attempts, 60) * policy.base_s, policy.max_s)

    wait_s = policy.wait_after(attempts, draw=draw).total_seconds()

    assert 0.75 * full_s - 1e-6 <= wait_s <= full_s + 1e-6


def test_the_waits_of_the_default_policy() -> None:
    waits = [POLICY.wait_after(attempts, draw=0).total_seconds() for attempts in (1, 2, 3, 9, 10)]

    assert waits == [10, 20, 40, 2560, 3600]
    assert POLICY.wait_after(1, draw=1).total_seconds() == 7.5


@pytest.mark.parametrize("field", ["base_s", "max_s"])
@pytest.mark.parametrize("value", [0, -1, BACKOFF_S_MAX + 1])
def test_waits_that_cannot_work_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=rf"^retry\.{field}: must be between 0 and 86,400"):
        DeliveryRetryPolicy(**{field: value})


@pytest.mark.parametrize(
    ("outcome", "state", "attempts", "error", "wake"),
    [
        (Acceptance(), DeliveryState.SENT, 3, None, None),
        (Rejection("it answered 422"), DeliveryState.DEAD, 3, "it answered 422", None),
        # A target that refuses our key leaves the delivery as it was.
        (TargetRefusal("it answered 401"), DeliveryState.FAILED, 2, SENDING.error, AT_ONCE),
        # A failure waits by the attempts with this one.
        (
            SendFailure("it answered 503"),
            DeliveryState.FAILED,
            3,
            "it answered 503",
            POLICY.wait_after(3, draw=0),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_became_of_an_attempt_decides_state_count_error_and_wait(
    outcome: SendOutcome,
    state: DeliveryState,
    attempts: int,
    error: str | None,
    wake: timedelta | None,
) -> None:
    made = settle_attempt(SENDING, outcome, POLICY, draw=0)

    assert (made.after.state, made.after.attempts, made.after.error) == (state, attempts, error)
    assert made.wake == wake


@given(st.floats(-1e12, 1e12), counts, draws)
def test_a_target_that_asks_for_a_longer_wait_gets_it_within_an_hour(
    asked_s: float, attempts: int, draw: float
) -> None:
    delivery = claimed(make_delivery(attempts=attempts))

    made = settle_attempt(delivery, SendFailure("busy", asked_s), POLICY, draw=draw)

    own = POLICY.wait_after(attempts + 1, draw=draw)
    assert made.wake == max(own, timedelta(seconds=min(asked_s, RETRY_AFTER_S_MAX)))
    assert made.wake is not None
    assert timedelta(0) < made.wake <= timedelta(seconds=RETRY_AFTER_S_MAX)


outcomes: st.SearchStrategy[SendOutcome] = st.one_of(
    st.just(Acceptance()),
    st.builds(Rejection, st.just("never")),
    st.builds(TargetRefusal, st.just("wrong key")),
    st.builds(SendFailure, st.just("down"), st.none() | st.floats(-1e9, 1e9)),
)


@given(outcomes, counts, counts, draws)
def test_only_a_rejection_makes_a_delivery_dead(
    outcome: SendOutcome, attempts: int, crashes: int, draw: float
) -> None:
    delivery = claimed(make_delivery(attempts=attempts, crashes=crashes))

    after = settle_attempt(delivery, outcome, POLICY, draw=draw).after
    rescued = rescue(delivery, POLICY, draw=draw).after

    assert (after.state is DeliveryState.DEAD) == isinstance(outcome, Rejection)
    assert rescued.state is DeliveryState.PENDING


@given(policies, st.integers(1, 10**9), draws)
def test_it_waits_from_the_second_lost_worker_on_and_ever_longer(
    policy: DeliveryRetryPolicy, crashes: int, draw: float
) -> None:
    first = rescue(claimed(make_delivery()), policy, draw=draw)
    later = rescue(claimed(make_delivery(crashes=crashes)), policy, draw=draw)

    assert first.wake == AT_ONCE
    assert later.wake == policy.wait_after(crashes, draw=draw)
    assert later.wake > AT_ONCE
