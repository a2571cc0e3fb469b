"""Why a job is where it is, what frees it, and when: one sentence, the same everywhere.

It names times, not how far off they are, so that it stays the same until something happens.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import assert_never

from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JobState
from headgate.model.worker import Worker

_CLASS = re.compile(r"^[A-Z]\w*: ")


def explain(
    job: Job,
    *,
    now: datetime,
    titles: Mapping[str, str] | None = None,
    workers: Sequence[Worker] | None = None,
) -> str:
    """One sentence for people.

    `titles` are what they call the providers. `workers` are those that live, where that is known:
    it matters to a job that `needs_worker`.
    """
    if workers is not None and needs_worker(job, now) and (missing := _missing(job, workers)):
        where = "In line, but" if job.state is JobState.PENDING else "Its worker is gone, and"
        return f"{where} {missing}: it goes on as soon as one is started."
    who = (titles or {}).get(job.provider, job.provider)
    match job.state:
        case JobState.PENDING:
            return _pending(job, now, who)
        case JobState.RUNNING:
            return _running(job)
        case JobState.PAUSED:
            return _paused(job, now, who)
        case JobState.CANCELLING:
            return f"Cancelling: waiting for the worker to let go, {_until(job.wake_at, now)}."
        case JobState.CANCELLED:
            return "Cancelled."
        case JobState.SUCCESS:
            return _success(job)
        case JobState.FAILED:
            return _failed(job, who)
        case _:
            assert_never(job.state)


def needs_worker(job: Job, now: datetime) -> bool:
    """Whether it waits for nothing but a worker: due, or lost by the one that had it."""
    if job.state is JobState.RUNNING:
        return job.lease_until is not None and job.lease_until < now
    return job.state is JobState.PENDING and (job.wake_at is None or job.wake_at <= now)


def _missing(job: Job, workers: Sequence[Worker]) -> str | None:
    """Why no worker takes the job; None where one does."""
    if not workers:
        return "no worker is running"
    if any(worker.can_run(job) for worker in workers):
        return None
    if any(job.sync in worker.abilities.syncs for worker in workers):
        return f"no running worker serves the {job.lane.value} lane"
    return f"no running worker knows the sync {job.sync!r}"


def _running(job: Job) -> str:
    held = " It will pause at its next checkpoint." if job.hold else ""
    if job.mode is Mode.HISTORY:
        return f"Syncing data for {job.progress.at}…{held}"
    at = f" on {job.progress.at}" if job.progress.at else ""
    return f"Working{at}.{held}"


#: While it waits for its time.
_WAITS = {
    Reason.RETRYING: "The last try failed; trying again {when}.",
    Reason.RATE_LIMITED: "{who} lets us do only so much at a time; going on {when}.",
    Reason.NO_LIMITER: "The rate limiter for {who} cannot be reached; looking again {when}.",
    Reason.CONNECTION_PAUSED: "The connection to {who} is paused; looking again {when}.",
    Reason.DEFERRED: "Waiting for {who}; going on {when}.",
    Reason.IDLE: "Nothing to do at the moment; looking again {when}.",
    Reason.RESCUED: "The worker was lost; starting again {when}.",
}


def _pending(job: Job, now: datetime, who: str) -> str:
    if job.reason is Reason.PROBE:
        return f"In line to try whether {who} has recovered."
    if job.wake_at is not None and job.wake_at > now:
        text = _WAITS.get(job.reason, "Scheduled to start {when}.")
        when = _until(job.wake_at, now)
        return text.format(who=who, when=when)
    if job.mode is Mode.HISTORY and job.started_at is not None and job.progress.at:
        return f"In line to go on with {job.progress.at}."
    return "In line for a worker."


def _paused(job: Job, now: datetime, who: str) -> str:
    busy = f"Syncing is temporarily paused because the {who} servers are busy."
    match job.reason:
        case Reason.OPERATOR:
            return "Paused until it is resumed."
        case Reason.RECOVERING:
            return f"{who} has recovered; going on {_until(job.wake_at, now)}."
        case _ if job.wake_at is not None and job.wake_at <= now:
            return f"{busy} We will automatically resume once a trial request gets through."
        case _:
            return f"{busy} We will automatically resume {_until(job.wake_at, now)}."


def _success(job: Job) -> str:
    days, refused = job.summary.days_failed, job.summary.refused
    if days or refused:
        missing = [f"{days} day{'s' if days != 1 else ''} could not be read"] if days else []
        if refused:
            were = "records were" if refused != 1 else "record was"
            missing.append(f"{refused} {were} refused")
        return f"Done, but {' and '.join(missing)}."
    if job.mode is Mode.HISTORY and job.progress.total == 0:
        return "Done: every day was held already."
    return "Done."


def _failed(job: Job, who: str) -> str:
    match job.reason:
        case Reason.NEEDS_REAUTH:
            return f"{who} needs you to sign in again. Nothing is lost."
        case Reason.CRASHES_SPENT:
            return f"Stopped: {_error(job)}."
        case _:
            return f"Failed: {_error(job)}."


def _error(job: Job) -> str:
    return plain(job.error).rstrip(".") or "no reason given"


def _until(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "at once"
    return f"{'at' if at > now else 'since'} {format_time(at)}"


def plain(error: str | None) -> str:
    """An error without its class, which is for whoever reads logs."""
    return _CLASS.sub("", error or "") or error or ""


def format_time(at: datetime) -> str:
    """A time, for people: with its zone, and no finer than it needs to be."""
    return f"{at:%Y-%m-%d %H:%M} UTC" if at.second == 0 else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """A stretch of time, for people."""
    whole = round(seconds)
    if whole >= 86_400:
        return f"{whole // 86_400}d{whole % 86_400 // 3600}h"
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"
