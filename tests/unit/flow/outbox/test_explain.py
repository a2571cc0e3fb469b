"""What is said of a delivery: what happened, what happens next, and what to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.flow.outbox.explain import explain_delivery, explain_stop
from headgate.model.delivery import Delivery, TargetStop
from headgate.model.states import DeliveryState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON, EARLIER = NOW + timedelta(minutes=5), NOW - timedelta(minutes=5)
STOP = TargetStop("local", "it answered 401: the API key is missing or wrong", EARLIER)


def delivery(state: DeliveryState = DeliveryState.PENDING, **fields: Any) -> Delivery:
    given: dict[str, Any] = {
        "id": "m1.local",
        "message_id": "m1",
        "topic": "orders",
        "target": "local",
        "state": state,
        "next_attempt_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Delivery(**{**given, **fields})


DUE = "It is due: a worker for local sends it, and so does: headgate outbox drain --env local"


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (delivery(), f"It is not delivered yet. {DUE}"),
        (
            delivery(next_attempt_at=SOON),
            "It is not delivered yet. It is sent at 2026-01-01 12:05 UTC.",
        ),
        (delivery(crashes=1), f"The worker that was sending it was lost. {DUE}"),
        (
            delivery(crashes=2, next_attempt_at=SOON),
            "The worker that was sending it was lost. It is sent again at 2026-01-01 12:05 UTC.",
        ),
        (
            delivery(DeliveryState.FAILED, attempts=1, next_attempt_at=SOON),
            "local has not accepted it in 1 attempt. It is sent again at 2026-01-01 12:05 UTC.",
        ),
        (
            delivery(DeliveryState.FAILED, attempts=7),
            f"local has not accepted it in 7 attempts. {DUE}",
        ),
        (
            delivery(DeliveryState.SENDING, next_attempt_at=None, lease_until=SOON),
            "It is being sent to local.",
        ),
        (
            delivery(DeliveryState.SENDING, next_attempt_at=None, lease_until=EARLIER),
            "The worker that was sending it was lost. The next worker that looks sends it again.",
        ),
        (
            delivery(DeliveryState.SENT, attempts=1, next_attempt_at=None, sent_at=EARLIER),
            "local accepted it at 2026-01-01 11:55 UTC.",
        ),
        (
            delivery(DeliveryState.SENT, attempts=3, next_attempt_at=None, sent_at=EARLIER),
            "local accepted it at 2026-01-01 11:55 UTC, after 3 attempts.",
        ),
        (
            delivery(DeliveryState.DEAD, attempts=1, next_attempt_at=None),
            "local can never accept it as it is, so it is not sent again by itself. "
            "Correct the cause, then run: headgate outbox retry m1.local",
        ),
    ],
)
def test_one_message_says_what_happened_and_what_comes_next(of: Delivery, said: str) -> None:
    assert explain_delivery(of, now=NOW) == said


def test_while_the_target_has_stopped_its_deliveries_say_so_and_what_to_do() -> None:
    why = (
        "local gets nothing since 2026-01-01 11:55 UTC: it answered 401: the API key is missing "
        "or wrong. Its deliveries wait, and none is lost. Correct its URL or its key, then run: "
        "headgate outbox resume --env local"
    )
    assert explain_stop(STOP) == why
    assert explain_delivery(delivery(), now=NOW, stop=STOP) == f"It is not delivered yet. {why}"
    failed = delivery(DeliveryState.FAILED, attempts=2, next_attempt_at=SOON)
    assert explain_delivery(failed, now=NOW, stop=STOP).endswith(why)


@pytest.mark.parametrize(
    "over",
    [
        delivery(DeliveryState.SENT, next_attempt_at=None, sent_at=NOW),
        delivery(DeliveryState.DEAD, next_attempt_at=None),
    ],
)
def test_what_is_over_does_not_wait_for_the_target(over: Delivery) -> None:
    assert explain_delivery(over, now=NOW, stop=STOP) == explain_delivery(over, now=NOW)
