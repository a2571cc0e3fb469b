"""Why a job is where it is, what frees it, and when: one sentence, the same everywhere."""

from datetime import datetime
from typing import assert_never

from headgate.model.job import Job, Reason
from headgate.model.states import JobState


def explain(job: Job, *, now: datetime) -> str:
    """One sentence for people."""
    match job.state:
        case JobState.PENDING:
            return _pending(job, now)
        case JobState.RUNNING:
            at = f" on {job.progress.at}" if job.progress.at else ""
            held = "; it will pause at its next checkpoint" if job.hold else ""
            return f"Working{at}{held}."
        case JobState.PAUSED:
            return _paused(job, now)
        case JobState.CANCELLING:
            return f"Cancelling: waiting for the worker to let go, {_until(job.wake_at, now)}."
        case JobState.CANCELLED:
            return "Cancelled."
        case JobState.SUCCESS:
            return _success(job)
        case JobState.FAILED:
            return _failed(job)
        case _:
            assert_never(job.state)


def _pending(job: Job, now: datetime) -> str:
    waits = job.wake_at is not None and job.wake_at > now
    when = _until(job.wake_at, now)
    match job.reason:
        case Reason.RETRYING if waits:
            return f"The last try failed ({_error(job)}); trying again {when}."
        case Reason.RATE_LIMITED if waits:
            return f"{job.source} lets us read only so much; going on {when}."
        case Reason.NO_LIMITER if waits:
            return f"The rate limiter for {job.source} cannot be reached; looking again {when}."
        case Reason.CONNECTION_PAUSED if waits:
            return f"The connection to {job.source} is paused; looking again {when}."
        case Reason.DEFERRED if waits:
            return f"Waiting for {job.source}; going on {when}."
        case Reason.UNKNOWN_SYNC if waits:
            return f"No worker knows the sync {job.sync!r} yet; looking again {when}."
        case Reason.RESCUED if waits:
            return f"The worker was lost; starting again {when}."
        case Reason.PROBE:
            return f"In line to try whether {job.source} has recovered."
        case _:
            return f"Scheduled to start {when}." if waits else "In line for a worker."


def _paused(job: Job, now: datetime) -> str:
    when = _until(job.wake_at, now)
    match job.reason:
        case Reason.OPERATOR:
            return "Paused by an operator until it is resumed."
        case Reason.RECOVERING:
            return f"{job.source} has recovered; going on {when}."
        case _ if job.wake_at is not None and job.wake_at <= now:
            return f"Paused because {job.source} kept failing; waiting for a trial request."
        case _:
            return f"Paused because {job.source} kept failing ({_error(job)}); trying again {when}."


def _success(job: Job) -> str:
    if job.reason is Reason.DONE_WITH_GAPS:
        days = job.summary.days_failed
        return f"Done, but {days} day{'s' if days != 1 else ''} could not be read."
    return "Done."


def _failed(job: Job) -> str:
    match job.reason:
        case Reason.NEEDS_REAUTH:
            return f"{job.source} needs the account to be connected again. Nothing is lost."
        case Reason.CRASHES_SPENT:
            return f"Stopped: {_error(job)}."
        case _:
            return f"Failed: {_error(job)}."


def _error(job: Job) -> str:
    return (job.error or "no reason given").rstrip(".")


def _until(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "at once"
    stamp = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    seconds = (at - now).total_seconds()
    if seconds <= 0:
        return f"since {stamp}"
    return f"at {stamp} (in {span(seconds)})"


def span(seconds: float) -> str:
    """A stretch of time, for people."""
    whole = round(seconds)
    if whole >= 86_400:
        return f"{whole // 86_400}d{whole % 86_400 // 3600}h"
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"
