"""The message about a delivery for operators: what happened, what happens next, and what to do.

It names times, not durations, so it stays the same until something happens. The error of the last
attempt is told beside it.
"""

from datetime import datetime

from headgate.base.times import format_time
from headgate.model.delivery import Delivery, TargetStop
from headgate.model.states import DeliveryState


def explain_delivery(delivery: Delivery, *, now: datetime, stop: TargetStop | None = None) -> str:
    """What happened to a delivery, what happens next, and what to do.

    `stop` is that of its target, if the target has stopped.
    """
    match delivery.state:
        case DeliveryState.SENT:
            return _sent(delivery)
        case DeliveryState.SENDING:
            return _sending(delivery, now)
        case DeliveryState.DEAD:
            return (
                f"{delivery.target} can never accept it as it is, so it is not sent again by "
                f"itself. Correct the cause, then run: headgate outbox retry {delivery.id}"
            )
        case _:
            return f"{_so_far(delivery)} {_next(delivery, now, stop)}"


def explain_stop(stop: TargetStop) -> str:
    """Why a target has stopped, since when, and what to do."""
    return (
        f"{stop.target} gets nothing since {format_time(stop.stopped_at)}: {stop.reason}. "
        "Its deliveries wait, and none is lost. Correct its URL or its key, then run: "
        f"headgate outbox resume --env {stop.target}"
    )


def _sent(delivery: Delivery) -> str:
    at = "" if delivery.sent_at is None else f" at {format_time(delivery.sent_at)}"
    tries = f", after {delivery.attempts} attempts" if delivery.attempts > 1 else ""
    return f"{delivery.target} accepted it{at}{tries}."


def _sending(delivery: Delivery, now: datetime) -> str:
    if delivery.lease_until is None or delivery.lease_until > now:
        return f"It is being sent to {delivery.target}."
    return "The worker that was sending it was lost. The next worker that looks sends it again."


def _so_far(delivery: Delivery) -> str:
    if delivery.attempts:
        tries = "1 attempt" if delivery.attempts == 1 else f"{delivery.attempts} attempts"
        return f"{delivery.target} has not accepted it in {tries}."
    if delivery.crashes:
        return "The worker that was sending it was lost."
    return "It is not delivered yet."


def _next(delivery: Delivery, now: datetime, stop: TargetStop | None) -> str:
    if stop is not None:
        return explain_stop(stop)
    due = delivery.next_attempt_at
    if due is not None and due > now:
        again = " again" if delivery.attempts or delivery.crashes else ""
        return f"It is sent{again} at {format_time(due)}."
    return (
        f"It is due: a worker for {delivery.target} sends it, and so does: "
        f"headgate outbox drain --env {delivery.target}"
    )
