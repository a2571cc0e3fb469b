"""What happens after a chunk failed, and when.

`decide` turns an error into a decision, and `rescue` turns a lost worker into a change. The tree in
`base/errors.py` classifies the errors; any error outside it counts as transient. Errors of our own
are retried as well, but never open a provider's breaker.
"""

from datetime import datetime, timedelta

import msgspec

from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    ConnectionPaused,
    ConnectorBug,
    Deferred,
    FaultKind,
    HeadgateError,
    InvalidInput,
    LimiterUnreachable,
    RateLimited,
    RecordsClaimed,
    SourceError,
    StoreFault,
    Terminal,
)
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JobState

#: Above every sensible setting (31 years in seconds), and small enough for date arithmetic.
_SETTING_MAX = 1_000_000_000

#: The first and the longest wait for a disk that has a fault. Each try reads the chunk again.
DISK_S = 30.0
DISK_S_MAX = 120.0


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a sync retries, and when its breaker opens."""

    #: The wait before the first retry; each further wait is `backoff_factor` times longer.
    backoff_s: float = 5.0
    backoff_factor: float = 2.0
    backoff_s_max: float = 300.0
    #: The part of each wait that is random, from 0 to 1; 0: every wait is exactly as long as named.
    jitter: float = 0.5
    #: The breaker opens after more recoverable failures than this within the window.
    errors_max: int = 5
    errors_window_s: float = 3600.0
    #: The breaker also opens after so many failures in a row, however slow they are.
    attempts_max: int = 10
    #: How long an open breaker pauses its job.
    cooldown_s: float = 3600.0
    #: The interval at which jobs are resumed once their provider has recovered.
    stagger_s: float = 2.0
    #: After so many pauses a chunk is given up: a day becomes a gap, any other job fails. While
    #: the provider is down for others too, the job stays paused instead.
    pauses_max: int = 3
    #: After so many pauses on one chunk the job fails, even if its provider is still down; with
    #: the default cool-down that is a week.
    outage_pauses_max: int = 168
    #: The job fails after one chunk has lost so many workers.
    crashes_max: int = 5
    #: How often in a row a chunk may be deferred before that counts as an outage.
    deferrals_max: int = 1000
    #: The shortest wait of a deferral, if the provider names none or a time in the past,
    defer_s_min: float = 1.0
    #: and the longest, if it says "come back in a year".
    defer_s_max: float = 24 * 3600.0

    def __post_init__(self) -> None:
        """Refuse settings that can never work, naming the field."""
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= _SETTING_MAX:
                raise InvalidInput(f"retry.{name}", f"must be between 0 and {_SETTING_MAX:,}")
        for name in ("backoff_factor", "attempts_max", "deferrals_max"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"retry.{name}", "must be at least 1")
        if self.jitter > 1:
            raise InvalidInput("retry.jitter", "must be between 0 and 1")


class Retry(msgspec.Struct, frozen=True):
    """Try again after a while; the failure counts."""

    after: timedelta
    recent_errors: tuple[datetime, ...]


class Defer(msgspec.Struct, frozen=True):
    """Wait for a while; it counts as no attempt."""

    after: timedelta
    reason: Reason


class Pause(msgspec.Struct, frozen=True):
    """Open the breaker."""

    cooldown: timedelta
    recent_errors: tuple[datetime, ...] = ()


class GiveUpDay(msgspec.Struct, frozen=True):
    """Record the day as a gap and go on with the next day."""


class Fail(msgspec.Struct, frozen=True):
    """End the job."""

    reason: Reason


Decision = Retry | Defer | Pause | GiveUpDay | Fail


def decide(
    job: Job,
    error: BaseException,
    policy: RetryPolicy,
    *,
    now: datetime,
    draw: float,
    outage: bool = False,
) -> Decision:
    """The decision for `job` after `error`. `draw` is a random number in [0, 1).

    With `outage`, other chunks fail too: the present one is not to blame, and is not given up.
    """
    if isinstance(error, AuthExpired):
        return Fail(Reason.NEEDS_REAUTH)
    if isinstance(error, Terminal):
        return Fail(Reason.REFUSED)
    if isinstance(error, Deferred):
        return _defer(job, error, policy, outage=outage)
    if isinstance(error, StoreFault):
        return _wait_for_disk(job, error)
    if is_ours(error):
        return _retry_ours(job, policy, draw=draw, outage=outage)
    recent = recent_errors(job, policy, now=now)
    # A probe gets one attempt: it only tests whether the provider has recovered.
    spent = len(recent) > policy.errors_max or job.attempts + 1 >= policy.attempts_max
    if spent or job.probe:
        return _open_breaker(job, policy, recent, outage=outage)
    return Retry(backoff(job.attempts, policy, draw=draw), recent)


def is_ours(error: BaseException) -> bool:
    """Whether a connector, the application or the store failed, and no provider."""
    if isinstance(error, SourceError):
        return isinstance(error, ConnectorBug)
    return isinstance(error, HeadgateError)


def rescue(job: Job, policy: RetryPolicy | None, *, draw: float, counts: bool = True) -> JobChange:
    """The change of a job whose worker was lost; each further loss makes the job wait longer.

    After the first loss it may run at once, because a deploy is the usual cause. Without a policy,
    which only the job's own application has, the job is never given up. Without `counts`, the
    worker could not extend its lease because the disk has a fault.
    """
    if job.state is JobState.CANCELLING:
        # Its worker is lost, or did not let go before the deadline.
        return change.cancel(job, Reason.CANCEL_DEADLINE)
    if policy is None or not counts:
        return change.rescue(job, after=timedelta(0), counts=counts)
    if job.crashes + 1 >= policy.crashes_max:
        return change.give_up(job)
    again = backoff(job.crashes, policy, draw=draw) if job.crashes else timedelta(0)
    return change.rescue(job, after=again)


def recent_errors(job: Job, policy: RetryPolicy, *, now: datetime) -> tuple[datetime, ...]:
    """The failures within the breaker's window, including the present one."""
    since = now - timedelta(seconds=policy.errors_window_s)
    kept = tuple(at for at in job.recent_errors if at > since)
    return (*kept, now)


def backoff(attempts: int, policy: RetryPolicy, *, draw: float) -> timedelta:
    """The wait before the next attempt: exponential, capped, and by default half of it random.

    One half is fixed, so that a retry never comes at once. The other half is random, so that jobs
    that failed together do not come back together.
    """
    try:
        growth = float(policy.backoff_factor) ** min(attempts, 64)
        longest_s = min(policy.backoff_s_max, policy.backoff_s * growth)
    except OverflowError:
        longest_s = policy.backoff_s_max
    return timedelta(seconds=longest_s * (1 - policy.jitter * (1 - draw)))


def gives_up(decision: Decision) -> bool:
    """Whether the decision gives a chunk up that might succeed once its provider has recovered."""
    return isinstance(decision, GiveUpDay) or decision == Fail(Reason.ATTEMPTS_SPENT)


_FAULT_REASONS = {
    FaultKind.DISK_FULL: Reason.DISK_FULL,
    FaultKind.DISK_READ_ONLY: Reason.DISK_READ_ONLY,
}


def _wait_for_disk(job: Job, fault: StoreFault) -> Decision:
    """Wait until somebody has repaired the disk; nothing counts against the job meanwhile."""
    wait_s = min(DISK_S_MAX, DISK_S * 2.0 ** min(job.deferrals, 8))
    return Defer(timedelta(seconds=wait_s), _FAULT_REASONS.get(fault.kind, Reason.DISK_BROKEN))


def _retry_ours(job: Job, policy: RetryPolicy, *, draw: float, outage: bool) -> Decision:
    """Retry with backoff; the breaker stays shut, because its provider did nothing wrong."""
    if job.attempts + 1 < policy.attempts_max:
        return Retry(backoff(job.attempts, policy, draw=draw), job.recent_errors)
    return _end(job, outage=outage)


def _end(job: Job, *, outage: bool) -> Decision:
    """Give the chunk up; in an outage, no day is to blame."""
    if outage or job.mode is not Mode.HISTORY:
        return Fail(Reason.ATTEMPTS_SPENT)
    return GiveUpDay()


def _defer(job: Job, error: Deferred, policy: RetryPolicy, *, outage: bool) -> Decision:
    # A wait caused by our own budget, a paused connection or another job is no outage.
    ours = isinstance(error, BudgetSpent | LimiterUnreachable | ConnectionPaused | RecordsClaimed)
    if job.deferrals + 1 > policy.deferrals_max and not ours:
        return _open_breaker(job, policy, outage=outage)
    # Never at once, even if no wait is named: that would be a tight loop.
    shortest = timedelta(seconds=min(policy.defer_s_min, policy.defer_s_max))
    longest = timedelta(seconds=policy.defer_s_max)
    return Defer(min(max(error.after, shortest), longest), _reason(error))


def _reason(error: Deferred) -> Reason:
    match error:
        case ConnectionPaused():
            return Reason.CONNECTION_PAUSED
        case RecordsClaimed():
            return Reason.RECORDS_CLAIMED
        case LimiterUnreachable():
            return Reason.NO_LIMITER
        case RateLimited():
            return Reason.RATE_LIMITED
        case _:
            return Reason.DEFERRED


def _open_breaker(
    job: Job, policy: RetryPolicy, recent: tuple[datetime, ...] = (), *, outage: bool
) -> Decision:
    if job.pauses < (policy.outage_pauses_max if outage else policy.pauses_max):
        return Pause(timedelta(seconds=policy.cooldown_s), recent)
    return _end(job, outage=outage)
