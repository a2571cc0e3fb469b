"""A chunk failed: what now? And when?

`decide` turns an error into a decision, and `rescue` a lost worker into a change; nothing else
does. Which errors are which is said by the tree in `base/errors.py`; anything outside it counts as
transient.
"""

from datetime import datetime, timedelta

import msgspec

from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    ConnectionPaused,
    Deferred,
    InvalidInput,
    LimiterUnreachable,
    RateLimited,
    Terminal,
)
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JobState

#: Above every sensible setting (31 years in seconds), and small enough to calculate with.
_SETTING_MAX = 1_000_000_000


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a sync is. The defaults are those of the health-history design."""

    #: The first retry waits this long, each further one `backoff_factor` times longer.
    backoff_s: float = 5.0
    backoff_factor: float = 2.0
    backoff_s_max: float = 300.0
    #: More recoverable failures than this within the window, and the breaker opens.
    errors_max: int = 5
    errors_window_s: float = 3600.0
    #: Failures too slow for the window still open the breaker after so many in a row.
    attempts_max: int = 10
    #: How long an open breaker rests before its job is tried again.
    cooldown_s: float = 3600.0
    #: How far apart jobs are let go once their provider has recovered.
    stagger_s: float = 2.0
    #: After so many pauses on one chunk it is given up: a gap in history, else the job's end.
    pauses_max: int = 3
    #: Workers that one chunk may take down before its job fails.
    crashes_max: int = 5
    #: Times in a row that a chunk may be put off before that counts as an outage.
    deferrals_max: int = 1000
    #: A provider that names no wait, or a time that has passed, is asked again after this,
    defer_s_min: float = 1.0
    #: and one that says "come back in a year" after this.
    defer_s_max: float = 24 * 3600.0

    def __post_init__(self) -> None:
        """Refuse what could never work, naming the field."""
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= _SETTING_MAX:
                raise InvalidInput(f"retry.{name}", f"must be between 0 and {_SETTING_MAX:,}")
        for name in ("backoff_factor", "attempts_max", "deferrals_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"retry.{name}", "must be at least 1")


class Retry(msgspec.Struct, frozen=True):
    """Try again after a while; the failure counts."""

    after: timedelta
    recent_errors: tuple[datetime, ...]


class Defer(msgspec.Struct, frozen=True):
    """Wait for so long; nothing counts."""

    after: timedelta
    reason: Reason


class Pause(msgspec.Struct, frozen=True):
    """Open the breaker."""

    cooldown: timedelta
    recent_errors: tuple[datetime, ...] = ()


class GiveUpDay(msgspec.Struct, frozen=True):
    """Record the day as a gap and go on with the next."""


class Fail(msgspec.Struct, frozen=True):
    """End the job."""

    reason: Reason


Decision = Retry | Defer | Pause | GiveUpDay | Fail


def decide(
    job: Job, error: BaseException, policy: RetryPolicy, *, now: datetime, draw: float
) -> Decision:
    """What becomes of `job` after `error`. `draw` is a random number in [0, 1)."""
    if isinstance(error, AuthExpired):
        return Fail(Reason.NEEDS_REAUTH)
    if isinstance(error, Terminal):
        return Fail(Reason.REFUSED)
    if isinstance(error, Deferred):
        return _put_off(job, error, policy)
    recent = recent_errors(job, policy, now=now)
    # A probe gets one try: it asks whether the provider is back, not how often it fails.
    spent = len(recent) > policy.errors_max or job.attempts + 1 >= policy.attempts_max
    if spent or job.probe:
        return _open_breaker(job, policy, recent)
    return Retry(backoff(job.attempts, policy, draw=draw), recent)


def rescue(job: Job, policy: RetryPolicy | None, *, draw: float) -> JobChange:
    """The worker was lost. A chunk that kills its workers comes back ever more slowly.

    The first time it comes back at once: a deploy is the usual cause. Without a policy, which only
    its own application has, it is never given up.
    """
    if job.state is JobState.CANCELLING:
        # Its worker is gone, or had until the deadline.
        return change.cancel(job, Reason.CANCEL_DEADLINE)
    if policy is None:
        return change.rescue(job, after=timedelta(0))
    if job.crashes + 1 >= policy.crashes_max:
        return change.give_up(job)
    again = backoff(job.crashes, policy, draw=draw) if job.crashes else timedelta(0)
    return change.rescue(job, after=again)


def recent_errors(job: Job, policy: RetryPolicy, *, now: datetime) -> tuple[datetime, ...]:
    """The failures inside the breaker's window, with the one of just now."""
    since = now - timedelta(seconds=policy.errors_window_s)
    kept = tuple(at for at in job.recent_errors if at > since)
    return (*kept, now)


def backoff(attempts: int, policy: RetryPolicy, *, draw: float) -> timedelta:
    """The wait before the next try: exponential, capped, with the upper half drawn at random.

    Half is fixed so that a retry never comes at once; half is random so that jobs which failed
    together do not come back together.
    """
    try:
        growth = float(policy.backoff_factor) ** min(attempts, 64)
        longest_s = min(policy.backoff_s_max, policy.backoff_s * growth)
    except OverflowError:
        longest_s = policy.backoff_s_max
    return timedelta(seconds=longest_s * (0.5 + draw / 2))


def _put_off(job: Job, error: Deferred, policy: RetryPolicy) -> Decision:
    # What we hold back ourselves, or a user does, says nothing about the provider.
    ours = isinstance(error, BudgetSpent | LimiterUnreachable | ConnectionPaused)
    if job.deferrals + 1 > policy.deferrals_max and not ours:
        return _open_breaker(job, policy)
    # Not at once, even where no wait is named: that would be a tight loop.
    shortest = timedelta(seconds=min(policy.defer_s_min, policy.defer_s_max))
    longest = timedelta(seconds=policy.defer_s_max)
    return Defer(min(max(error.after, shortest), longest), _reason(error))


def _reason(error: Deferred) -> Reason:
    match error:
        case ConnectionPaused():
            return Reason.CONNECTION_PAUSED
        case LimiterUnreachable():
            return Reason.NO_LIMITER
        case RateLimited():
            return Reason.RATE_LIMITED
        case _:
            return Reason.DEFERRED


def _open_breaker(job: Job, policy: RetryPolicy, recent: tuple[datetime, ...] = ()) -> Decision:
    if job.pauses < policy.pauses_max:
        return Pause(timedelta(seconds=policy.cooldown_s), recent)
    return GiveUpDay() if job.mode is Mode.HISTORY else Fail(Reason.ATTEMPTS_SPENT)
