"""What happens after the fetch of an item failed, and when.

`decide` turns an error into a decision, by the policy of the item's collection. `ends_batch` says
whether the rest of the batch may still be tried, and `rescue` returns the change of an item whose
worker was lost. The tree in `base/errors.py` classifies the errors; any error outside it counts as
transient.
"""

from datetime import timedelta

import msgspec

from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    ConnectionPaused,
    Deferred,
    InvalidInput,
    LimiterUnreachable,
    NoData,
    RateLimited,
    SourceError,
    Terminal,
    Transient,
)
from headgate.model import item as change
from headgate.model.item import Item, ItemChange

#: The shortest wait of a deferral, if the provider names none or a time in the past,
DEFER_S_MIN = 1.0
#: and the longest, if it says "come back in a year".
DEFER_S_MAX = 24 * 3600.0
#: After so many transient failures in a row, the provider is down and not the items.
TRANSIENTS_MAX = 3
#: Above every sensible setting: a million times, a year.
COUNT_MAX = 1_000_000
BACKOFF_S_MAX = 365 * 24 * 3600.0


class ItemRetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how soon the items of a collection are tried again."""

    #: After so many failures an item stays failed, until it is reset.
    failures_max: int = 3
    #: The waits after the first failure or lost worker, the second and so on; the last one repeats.
    backoff_s: tuple[float, ...] = (60.0, 300.0, 1800.0)
    #: An item fails for good after it has lost so many workers.
    crashes_max: int = 5
    #: The error that it has then.
    lost_error: str = "the worker was lost too often"
    #: An item fails for good after so many deferrals: with a quarter of an hour each, about a day.
    deferrals_max: int = 100

    def __post_init__(self) -> None:
        """Refuse settings that can never work, naming the field."""
        for name in ("failures_max", "crashes_max", "deferrals_max"):
            if not 1 <= getattr(self, name) <= COUNT_MAX:
                raise InvalidInput(f"retry.{name}", f"must be between 1 and {COUNT_MAX:,}")
        if not self.backoff_s:
            raise InvalidInput("retry.backoff_s", "name at least one wait")
        if not all(0 <= wait_s <= BACKOFF_S_MAX for wait_s in self.backoff_s):
            raise InvalidInput("retry.backoff_s", f"must be between 0 and {BACKOFF_S_MAX:,.0f}")

    def wait_after(self, times: int) -> timedelta:
        """The wait after so many failures or lost workers."""
        return timedelta(seconds=self.backoff_s[min(times, len(self.backoff_s)) - 1])


class RetryItem(msgspec.Struct, frozen=True):
    """The fetch failed; try again after a while, or never if `after` is None."""

    after: timedelta | None


class DeferItem(msgspec.Struct, frozen=True):
    """Wait for a while; it counts as no failure."""

    after: timedelta
    #: Whether the provider refused the item by its rate limit.
    limited: bool
    #: Whether it counts as a deferral.
    counts: bool


class GiveUp(msgspec.Struct, frozen=True):
    """The provider has deferred the item too often."""

    limited: bool


class Unavailable(msgspec.Struct, frozen=True):
    """The provider has nothing to fetch."""


class GiveBack(msgspec.Struct, frozen=True):
    """The error does not concern the item: release it unchanged."""


Decision = RetryItem | DeferItem | GiveUp | Unavailable | GiveBack


def decide(item: Item, error: BaseException, policy: ItemRetryPolicy) -> Decision:
    """The decision for `item` after `error`."""
    if isinstance(error, NoData):
        return Unavailable()
    if isinstance(error, AuthExpired | LimiterUnreachable | ConnectionPaused):
        return GiveBack()
    if isinstance(error, Deferred):
        return _defer(item, error, policy)
    if isinstance(error, Terminal):
        return RetryItem(None)
    return RetryItem(_backoff(item, error, policy))


def ends_batch(error: BaseException, transients: int) -> bool:
    """Whether the rest of the batch would only get the same error.

    `transients` is the number of transient failures in a row, including this one.
    """
    return isinstance(error, Deferred | AuthExpired) or transients >= TRANSIENTS_MAX


def is_transient(error: BaseException) -> bool:
    """Whether the error is about the provider rather than about the item."""
    return isinstance(error, Transient) or not isinstance(error, SourceError)


def rescue(item: Item, policy: ItemRetryPolicy | None, *, counts: bool = True) -> ItemChange:
    """The change of an item whose worker was lost.

    After the first loss it may be claimed at once, because a deploy is the usual cause. Without a
    policy, which only the item's own application has, it is never given up. Without `counts`, the
    worker could not extend its lease because the disk has a fault.
    """
    if policy is None or not counts:
        return change.rescue(item, after=timedelta(0), counts=counts)
    if item.crashes + 1 >= policy.crashes_max:
        return change.abandon(item, error=policy.lost_error)
    again = policy.wait_after(item.crashes) if item.crashes else timedelta(0)
    return change.rescue(item, after=again)


def _backoff(item: Item, error: BaseException, policy: ItemRetryPolicy) -> timedelta | None:
    failures = item.retry_count + 1
    if failures >= policy.failures_max:
        return None
    requested_s = (error.retry_after_s or 0.0) if isinstance(error, Transient) else 0.0
    return max(policy.wait_after(failures), timedelta(seconds=min(requested_s, DEFER_S_MAX)))


def _defer(item: Item, error: Deferred, policy: ItemRetryPolicy) -> Decision:
    ours = isinstance(error, BudgetSpent)
    limited = isinstance(error, RateLimited) and not ours
    if not ours and item.deferrals + 1 >= policy.deferrals_max:
        return GiveUp(limited)
    shortest, longest = timedelta(seconds=DEFER_S_MIN), timedelta(seconds=DEFER_S_MAX)
    return DeferItem(min(max(error.after, shortest), longest), limited=limited, counts=not ours)
