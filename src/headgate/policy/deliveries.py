"""What happens after an attempt to send a message, and when."""

from datetime import timedelta
from typing import assert_never

import msgspec

from headgate.base.errors import InvalidInput
from headgate.model import delivery as change
from headgate.model.delivery import (
    Acceptance,
    Delivery,
    DeliveryChange,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)

#: How much earlier than computed a delivery may be sent again, as a share of the wait. It spreads
#: the deliveries that failed together.
JITTER = 0.25
#: Above every sensible setting: a day.
BACKOFF_S_MAX = 24 * 3600.0
#: A target may ask us to wait for so long, and no longer.
RETRY_AFTER_S_MAX = 3600.0
#: No wait doubles more often than this; it only keeps the numbers small.
_DOUBLINGS_MAX = 40


class DeliveryRetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How soon a delivery is sent again: after `min(2^attempts * base_s, max_s)`, with jitter."""

    base_s: float = 5.0
    max_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse settings that can never work, naming the field."""
        for name in ("base_s", "max_s"):
            if not 0 < getattr(self, name) <= BACKOFF_S_MAX:
                raise InvalidInput(f"retry.{name}", f"must be between 0 and {BACKOFF_S_MAX:,.0f}")

    def wait_after(self, attempts: int, *, draw: float) -> timedelta:
        """The wait after so many attempts; `draw` is a random number between 0 and 1."""
        full_s = min(2.0 ** min(attempts, _DOUBLINGS_MAX) * self.base_s, self.max_s)
        return timedelta(seconds=full_s * (1 - JITTER * draw))


def settle_attempt(
    delivery: Delivery, outcome: SendOutcome, policy: DeliveryRetryPolicy, *, draw: float
) -> DeliveryChange:
    """The change of a delivery after an attempt with this outcome.

    A target that cannot be reached is asked again, however often that takes. One that refuses our
    key, or is gone, gets its deliveries later: they stay as they were.
    """
    match outcome:
        case Acceptance():
            return change.succeed(delivery)
        case Rejection(reason):
            return change.reject(delivery, error=reason)
        case TargetRefusal():
            return change.release(delivery)
        case SendFailure(reason, retry_after_s):
            wait = policy.wait_after(delivery.attempts + 1, draw=draw)
            asked = timedelta(seconds=min(retry_after_s or 0.0, RETRY_AFTER_S_MAX))
            return change.fail(delivery, error=reason, after=max(wait, asked))
        case _:
            assert_never(outcome)


def rescue(
    delivery: Delivery, policy: DeliveryRetryPolicy, *, draw: float, counts: bool = True
) -> DeliveryChange:
    """The change of a delivery whose worker was lost.

    After the first loss it may be claimed at once, because a deploy is the usual cause. Without
    `counts`, the worker could not extend its lease because the disk has a fault.
    """
    if not counts:
        return change.rescue(delivery, after=timedelta(0), counts=False)
    wait = policy.wait_after(delivery.crashes, draw=draw) if delivery.crashes else timedelta(0)
    return change.rescue(delivery, after=wait)
