"""Deliveries: what each change makes of one, and what a message is.

The whole table is walked in `test_leased_walks.py`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from headgate.base.encoding import hash_text
from headgate.base.errors import IllegalTransition
from headgate.model import delivery as change
from headgate.model.delivery import (
    DELIVERIES,
    ERROR_LENGTH_MAX,
    Delivery,
    DeliveryChange,
    Message,
)
from headgate.model.states import DELIVERY, DeliveryState
from tests.unit.model.walks import Walked
from tests.unit.values import NOW

MINUTE = timedelta(minutes=1)
#: As the design draws them.
CHANGES = {
    ("pending", "sending"),
    ("failed", "sending"),
    ("sending", "sent"),
    ("sending", "failed"),
    ("sending", "dead"),
    ("sending", "pending"),
    ("pending", "pending"),
    ("failed", "pending"),
    ("dead", "pending"),
}
CONSTRUCTORS: dict[str, Callable[[Delivery], DeliveryChange]] = {
    "succeed": change.succeed,
    "fail": lambda delivery: change.fail(delivery, error="it answered 503", after=MINUTE),
    "reject": lambda delivery: change.reject(delivery, error="it answered 422"),
    "release": change.release,
    "rescue": lambda delivery: change.rescue(delivery, after=MINUTE),
    "retry": change.retry,
}
#: Made by whoever has claimed the delivery, or finds its lease expired.
OF_WORKERS = sorted(set(CONSTRUCTORS) - {"retry"})


def make_delivery(**fields: object) -> Delivery:
    """A delivery that was just enqueued, but for `fields`."""
    given = {
        "id": "message_1.local",
        "message_id": "message_1",
        "topic": "orders",
        "target": "local",
        "next_attempt_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Delivery(**given)  # type: ignore[arg-type]


def make_message(payload: str = '{"a":1}', **fields: object) -> Message:
    """A message with this payload, but for `fields`."""
    given = {
        "id": "message_1",
        "topic": "orders",
        "key": "key_1",
        "payload": payload,
        "payload_hash": hash_text(payload),
        "run_id": None,
        "user_id": None,
        "created_at": NOW,
        **fields,
    }
    return Message(**given)  # type: ignore[arg-type]


def claimed(delivery: Delivery) -> Delivery:
    """A worker takes the delivery, as the store's claim does."""
    return replace(
        delivery,
        state=DeliveryState.SENDING,
        token=delivery.token + 1,
        lease_until=NOW + MINUTE * delivery.token,
        next_attempt_at=None,
    )


def is_due(delivery: Delivery) -> bool:
    return delivery.state in DELIVERY.claim.sources


def check(row: Delivery) -> None:
    """What is true of every delivery, however it came about."""
    assert min(row.attempts, row.crashes, row.token) >= 0
    assert (row.lease_until is not None) == (row.state is DeliveryState.SENDING)
    assert (row.sent_at is not None) == (row.state is DeliveryState.SENT)
    # Nothing that waits is forgotten, and nothing else happens by itself.
    assert (row.next_attempt_at is not None) == is_due(row)


WALKED = Walked(
    kind=DELIVERIES,
    first=[make_delivery()],
    constructors=CONSTRUCTORS,
    # What is given back or taken over shuts out whoever had it.
    fencing=frozenset({"release", "rescue", "retry"}),
    claimed=claimed,
    is_due=is_due,
    check=check,
    identity=lambda delivery: delivery.state,
)
applied = WALKED.applied


@pytest.mark.parametrize("name", OF_WORKERS)
def test_only_who_has_claimed_it_or_finds_its_lease_expired_changes_a_delivery(name: str) -> None:
    with pytest.raises(IllegalTransition, match=r"'message_1.local' is pending: no \w+ from there"):
        CONSTRUCTORS[name](make_delivery())


@pytest.mark.parametrize("state", [DeliveryState.SENDING, DeliveryState.SENT])
def test_what_is_being_sent_or_was_accepted_cannot_be_retried(state: DeliveryState) -> None:
    with pytest.raises(IllegalTransition, match=f"is {state.value}: no retry"):
        change.retry(make_delivery(state=state))


@pytest.mark.parametrize(
    ("name", "state", "error", "sent_at", "due_at"),
    [
        ("succeed", DeliveryState.SENT, None, NOW, None),
        ("fail", DeliveryState.FAILED, "it answered 503", None, NOW + MINUTE),
        ("reject", DeliveryState.DEAD, "it answered 422", None, None),
    ],
)
def test_an_attempt_counts_and_says_what_became_of_it(
    name: str,
    state: DeliveryState,
    error: str | None,
    sent_at: datetime | None,
    due_at: datetime | None,
) -> None:
    delivery = claimed(make_delivery(attempts=2, crashes=1, error="it answered 502"))

    after = applied(delivery, CONSTRUCTORS[name](delivery))

    assert after is not None
    assert (after.state, after.attempts, after.crashes) == (state, 3, 1)
    assert (after.error, after.sent_at, after.next_attempt_at) == (error, sent_at, due_at)


@pytest.mark.parametrize(
    ("state", "attempts", "error"),
    [(DeliveryState.PENDING, 0, None), (DeliveryState.FAILED, 3, "it answered 503")],
)
def test_what_is_given_back_is_as_it_was_and_due_at_once(
    state: DeliveryState, attempts: int, error: str | None
) -> None:
    delivery = claimed(make_delivery(state=state, attempts=attempts, crashes=1, error=error))

    after = applied(delivery, change.release(delivery))

    assert after is not None
    assert (after.state, after.attempts, after.crashes) == (state, attempts, 1)
    assert (after.error, after.next_attempt_at) == (error, NOW)


def test_a_crash_is_counted_as_one_and_not_as_an_attempt() -> None:
    delivery = claimed(make_delivery(attempts=3, crashes=1))
    made = change.rescue(delivery, after=MINUTE)

    after = applied(delivery, made)

    assert after is not None
    assert (after.state, after.attempts, after.crashes) == (DeliveryState.PENDING, 3, 2)
    assert after.next_attempt_at == NOW + MINUTE
    # If the lease was extended meanwhile, the worker lives.
    assert applied(replace(delivery, lease_until=NOW + MINUTE * 9), made) is None


def test_a_retry_begins_afresh_at_once_and_shuts_out_whoever_had_it() -> None:
    fields = {"attempts": 9, "crashes": 3, "error": "x", "next_attempt_at": None, "token": 4}
    delivery = make_delivery(state=DeliveryState.DEAD, **fields)

    after = applied(delivery, change.retry(delivery))

    assert after is not None
    assert (after.state, after.next_attempt_at, after.token) == (DeliveryState.PENDING, NOW, 5)
    assert (after.attempts, after.crashes, after.error) == (0, 0, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda it, text: change.fail(it, error=text, after=MINUTE),
        lambda it, text: change.reject(it, error=text),
    ],
)
def test_the_text_of_an_error_is_cut_to_what_is_stored(
    make: Callable[[Delivery, str], DeliveryChange],
) -> None:
    delivery = claimed(make_delivery())

    whole = make(delivery, "x" * ERROR_LENGTH_MAX).after.error
    cut = make(delivery, "x" * (ERROR_LENGTH_MAX + 1)).after.error

    assert whole == "x" * ERROR_LENGTH_MAX
    assert cut == "x" * (ERROR_LENGTH_MAX - 1) + "…"


def test_a_message_knows_whether_its_payload_was_changed() -> None:
    message = make_message('{"price":100}')

    assert message.intact
    assert not replace(message, payload='{"price":1}').intact
