"""Messages, their deliveries, and every change of a delivery, made by one constructor each.

A message is what an application wants others to have. It never changes, and it has one delivery for
each target. A delivery is sent at least once; its message's key is the same at every attempt, so
that the target accepts it once.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import hash_text
from headgate.model.lease import AT_ONCE, Change, LeasedType, LockedRow, make_change
from headgate.model.states import DELIVERY, DeliveryEdge, DeliveryState, Edge

#: The longest text of an error that is stored.
ERROR_LENGTH_MAX = 500


class Message(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is sent: a snapshot that never changes."""

    id: str
    topic: str
    #: Goes with every attempt as `Idempotency-Key`.
    key: str
    #: The JSON that is sent, to the byte.
    payload: str
    payload_hash: str
    run_id: str | None
    user_id: str | None
    created_at: datetime

    @property
    def intact(self) -> bool:
        """Whether the payload is still the one that was enqueued."""
        return hash_text(self.payload) == self.payload_hash


class Delivery(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One message on its way to one target."""

    id: str
    message_id: str
    topic: str
    target: str
    run_id: str | None = None
    user_id: str | None = None
    state: DeliveryState = DeliveryState.PENDING
    #: How often the message was sent, and the target said something or did not answer.
    attempts: int = 0
    crashes: int = 0
    #: When it may be claimed; None if nothing happens by itself: claimed, sent or dead.
    next_attempt_at: datetime | None
    attempted_at: datetime | None = None
    sent_at: datetime | None = None
    #: What went wrong at the last attempt.
    error: str | None = None
    token: int = 0
    lease_until: datetime | None = None
    worker: str | None = None
    created_at: datetime
    updated_at: datetime


class TargetStop(msgspec.Struct, frozen=True, gc=False):
    """A target that gets nothing until somebody has corrected its URL or its key."""

    target: str
    reason: str
    stopped_at: datetime


# ---- the outcome of an attempt -----------------------------------------------------------------


class Acceptance(msgspec.Struct, frozen=True):
    """The target has the message."""


class Rejection(msgspec.Struct, frozen=True):
    """The target can never accept the message."""

    reason: str


class TargetRefusal(msgspec.Struct, frozen=True):
    """The target accepts no message from us: our key is wrong, or nobody is there any more."""

    reason: str


class SendFailure(msgspec.Struct, frozen=True):
    """The target did not accept the message this time."""

    reason: str
    #: How long the target asks us to wait, if it says so.
    retry_after_s: float | None = None


SendOutcome = Acceptance | Rejection | TargetRefusal | SendFailure


# ---- changes -----------------------------------------------------------------------------------


class DeliveryChange(Change[Delivery], frozen=True, gc=False, kw_only=True):
    """One transition of one delivery, not yet applied."""

    edge: Edge[DeliveryEdge, DeliveryState]


def _fill(change: DeliveryChange, locked: LockedRow) -> dict[str, Any]:
    return {"sent_at": locked.now if change.edge.target is DeliveryState.SENT else None}


DELIVERIES = LeasedType(
    machine=DELIVERY,
    row=Delivery,
    locked=LockedRow,
    wake="next_attempt_at",
    always=("sent_at",),
    if_changed=("attempts", "crashes", "error"),
    fill=_fill,
)


def _change(
    delivery: Delivery, edge: DeliveryEdge, becomes: Delivery, **fields: Any
) -> DeliveryChange:
    return make_change(DeliveryChange, DELIVERY, delivery, edge, becomes, **fields)


# Made by the worker that has claimed the delivery.


def succeed(delivery: Delivery) -> DeliveryChange:
    """The target has accepted the message."""
    becomes = replace(delivery, attempts=delivery.attempts + 1, error=None)
    return _change(delivery, DeliveryEdge.SUCCEED, becomes)


def fail(delivery: Delivery, *, error: str, after: timedelta) -> DeliveryChange:
    """The target did not accept the message this time; it is sent again after a while."""
    return _change(delivery, DeliveryEdge.FAIL, _with_error(delivery, error), wake=after)


def reject(delivery: Delivery, *, error: str) -> DeliveryChange:
    """The target can never accept the message."""
    return _change(delivery, DeliveryEdge.REJECT, _with_error(delivery, error))


def release(delivery: Delivery) -> DeliveryChange:
    """The worker gives the delivery back, due at once and otherwise as it was.

    One that had failed is failed again, with its attempts and its error.
    """
    edge = DeliveryEdge.RELEASE_FAILED if delivery.attempts else DeliveryEdge.RELEASE
    return _change(delivery, edge, delivery, wake=AT_ONCE, fences=True)


# Made by whoever finds its lease expired.


def rescue(delivery: Delivery, *, after: timedelta, counts: bool = True) -> DeliveryChange:
    """The lease has expired, so the worker is lost. It counts as a crash, not as an attempt."""
    becomes = replace(delivery, crashes=delivery.crashes + counts)
    seen = delivery.lease_until
    return _change(delivery, DeliveryEdge.RESCUE, becomes, wake=after, lease_seen=seen, fences=True)


# Made by people.


def retry(delivery: Delivery) -> DeliveryChange:
    """An operator sends a delivery at once, with all counters at zero.

    It has failed, or is dead, or waits for a time that is far away: a clock may have been wrong.
    """
    becomes = replace(delivery, attempts=0, crashes=0, error=None)
    return _change(delivery, DeliveryEdge.RETRY, becomes, wake=AT_ONCE, fences=True)


def _with_error(delivery: Delivery, error: str) -> Delivery:
    shown = error if len(error) <= ERROR_LENGTH_MAX else error[: ERROR_LENGTH_MAX - 1] + "…"
    return replace(delivery, attempts=delivery.attempts + 1, error=shown)
