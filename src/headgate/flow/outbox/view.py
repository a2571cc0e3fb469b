"""The representation of a delivery and of its message, for operators."""

from datetime import datetime

import msgspec

from headgate.base.encoding import Json, from_json
from headgate.flow.outbox.explain import explain_delivery
from headgate.flow.view import View, shared_fields
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.states import DeliveryState


class DeliveryView(View, frozen=True, kw_only=True):
    """One message on its way to one target."""

    id: str
    message_id: str
    topic: str
    target: str
    run_id: str | None
    user_id: str | None
    state: DeliveryState
    attempts: int
    crashes: int
    next_attempt_at: datetime | None
    attempted_at: datetime | None
    sent_at: datetime | None
    target_stopped_at: datetime | None
    #: What happened, what happens next, and what to do.
    message: str
    error: str | None
    created_at: datetime
    updated_at: datetime


class MessageView(View, frozen=True, kw_only=True):
    """What is sent."""

    id: str
    topic: str
    key: str
    run_id: str | None
    user_id: str | None
    payload_hash: str
    payload_bytes: int
    intact: bool
    created_at: datetime
    #: As JSON; as a text where other programs have spoilt it.
    payload: Json


def delivery_view(
    delivery: Delivery, *, now: datetime, stop: TargetStop | None = None
) -> DeliveryView:
    """The view of a delivery; `stop` is that of its target, if it stopped."""
    return DeliveryView(
        **shared_fields(DeliveryView, delivery),
        target_stopped_at=None if stop is None else stop.stopped_at,
        message=explain_delivery(delivery, now=now, stop=stop),
    )


def message_view(message: Message) -> MessageView:
    """The view of a message."""
    return MessageView(
        **shared_fields(MessageView, message, but="payload"),
        payload_bytes=len(message.payload.encode()),
        payload=_payload(message),
    )


def _payload(message: Message) -> Json:
    try:
        return from_json(message.payload)
    except (msgspec.DecodeError, RecursionError):
        return message.payload
