"""The message about a job for its user: what happened, what happens next, and what to do.

The message depends on the job's state, its reason and the kind of its last error, never on the text
of the error: an address, a status or a parser's message helps no user. Operators see the text. The
message names times, not durations, so it stays the same until something happens.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import assert_never

from headgate.base.errors import StoreFault
from headgate.base.failure import read_failure
from headgate.base.times import format_time
from headgate.model.connection import Connection
from headgate.model.item import Item
from headgate.model.job import Job, Mode, Reason
from headgate.model.record import ITEMS_FAILED
from headgate.model.states import ConnectionState, DayStatus, ItemState, JobState
from headgate.model.worker import Worker
from headgate.policy.retryable import OURS, is_retryable


def user_message(
    job: Job,
    *,
    now: datetime,
    titles: Mapping[str, str] | None = None,
    workers: Sequence[Worker] | None = None,
    fault: StoreFault | None = None,
) -> str:
    """The message for the user.

    `titles` are the providers' names for people. `workers` are the live workers, if known, and
    `fault` is what is wrong with the database; they matter for a job that `needs_worker`.
    """
    if fault is not None and needs_worker(job, now):
        return f"{fault.sentence} It goes on once that is repaired. {_KEPT}"
    if missing_worker(job, now=now, workers=workers) is not None:
        return _WITHOUT_WORKER[job.state]
    who = (titles or {}).get(job.provider, job.provider)
    match job.state:
        case JobState.PENDING:
            return _pending(job, now, who)
        case JobState.RUNNING:
            return _running(job)
        case JobState.PAUSED:
            return _paused(job, now, who)
        case JobState.CANCELLING:
            return _cancelling(job, now)
        case JobState.CANCELLED:
            return f"Cancelled. {_SAFE} Start a new import to go on."
        case JobState.SUCCESS:
            return _success(job)
        case JobState.FAILED:
            return _failed(job, who)
        case _:
            assert_never(job.state)


def needs_worker(job: Job, now: datetime) -> bool:
    """Whether the job only waits for a worker: it is due, or its worker was lost."""
    if job.state is JobState.RUNNING:
        return job.lease_until is not None and job.lease_until < now
    return job.state is JobState.PENDING and (job.wake_at is None or job.wake_at <= now)


def missing_worker(job: Job, *, now: datetime, workers: Sequence[Worker] | None) -> str | None:
    """Why no worker takes the job, for operators; None if one does, or none is needed."""
    if workers is None or not needs_worker(job, now):
        return None
    if not workers:
        return "no worker is running"
    if any(worker.can_run(job) for worker in workers):
        return None
    if any(job.sync in worker.abilities.syncs for worker in workers):
        return f"no running worker serves the {job.lane.value} lane"
    return f"no running worker has the sync {job.sync!r}"


def day_message(status: DayStatus, *, refused: bool, destination: str | None) -> str | None:
    """Why a day is missing or incomplete, for the user; None if nothing is wrong."""
    if status is DayStatus.FAILED:
        return "We tried several times and could not import this day."
    return f"{destination or 'We'} did not take some of this day's records." if refused else None


_SAFE = "What was imported so far is safe."
_TRY_AGAIN = "Try again; if it stops again, ask support."
_KEPT = "What was imported so far is safe, and we have been notified."
_OUR_FAULT = "Something went wrong on our side; we have been notified."
_SUPPORT = "Ask support, and give them the support code."
_WITHOUT_WORKER = {
    JobState.PENDING: "Waiting for a worker: no worker that can do this is running. "
    "It starts as soon as one is.",
    JobState.RUNNING: "Interrupted: the worker is gone, and no other that can do this is running. "
    "It goes on as soon as one is.",
}


def _running(job: Job) -> str:
    pausing = " It will pause at its next checkpoint." if job.pause_requested else ""
    if job.mode is Mode.HISTORY:
        return f"Syncing data for {job.progress.at}…{pausing}"
    at = f" on {job.progress.at}" if job.progress.at else ""
    return f"Working{at}.{pausing}"


#: The message while the job waits for its time, by its reason.
_WAITS = {
    Reason.RETRYING: "The last try failed; trying again {when}.",
    Reason.RATE_LIMITED: "{who} limits how much we may request; going on {when}.",
    Reason.NO_LIMITER: "We cannot check how much {who} allows right now; trying again {when}.",
    Reason.CONNECTION_PAUSED: "The connection to {who} is paused; checking again {when}.",
    Reason.RECORDS_CLAIMED: "Another import is sending some of the same records; going on {when}.",
    Reason.DISK_FULL: "Our disk is full, so nothing can be stored; trying again {when}. " + _KEPT,
    Reason.DISK_READ_ONLY: "Our disk cannot be written to; trying again {when}. " + _KEPT,
    Reason.DISK_BROKEN: "Our disk has errors; trying again {when}. " + _KEPT,
    Reason.DEFERRED: "Waiting for {who}; going on {when}.",
    Reason.IDLE: "Nothing to do at the moment; checking again {when}.",
    Reason.RESCUED: "We were interrupted; starting again {when}.",
}


def _pending(job: Job, now: datetime, who: str) -> str:
    if job.reason is Reason.PROBE:
        return f"Waiting for a worker to test whether {who} has recovered."
    if job.wake_at is not None and job.wake_at > now:
        text = _WAITS.get(job.reason, "Scheduled to start {when}.")
        if job.reason is Reason.RETRYING and _kind(job) in OURS:
            text = f"{_OUR_FAULT} Trying again {{when}}."
        return text.format(who=who, when=_format_when(job.wake_at, now))
    if job.mode is Mode.HISTORY and job.started_at is not None and job.progress.at:
        return f"Waiting for a worker to go on with {job.progress.at}."
    return "Waiting for a worker."


def _paused(job: Job, now: datetime, who: str) -> str:
    busy = f"Syncing is temporarily paused because the {who} servers are busy."
    match job.reason:
        case Reason.OPERATOR:
            return "Paused until it is resumed."
        case Reason.RECOVERING:
            return f"{who} has recovered; going on {_format_when(job.wake_at, now)}."
        case _ if job.wake_at is not None and job.wake_at <= now:
            return f"{busy} We will automatically resume once a trial request gets through."
        case _:
            return f"{busy} We will automatically resume {_format_when(job.wake_at, now)}."


def _cancelling(job: Job, now: datetime) -> str:
    if job.wake_at is None or job.wake_at <= now:
        return "Cancelling. What is being read now may still be imported."
    return (
        "Cancelling. What is being read now may still be imported; "
        f"it ends by {format_time(job.wake_at)} at the latest."
    )


def _success(job: Job) -> str:
    days, refused = job.summary.days_failed, job.summary.refused
    items = job.summary.counts.get(ITEMS_FAILED, 0)
    if days or refused or items:
        missing = [f"{days} day{'s' if days != 1 else ''} could not be read"] if days else []
        if items:
            missing.append(f"{items} item{'s' if items != 1 else ''} could not be fetched")
        if refused:
            were = "records were" if refused != 1 else "record was"
            missing.append(f"{refused} {were} refused")
        again = " Start the same import again to try those days once more." if days else ""
        return f"Done, but {' and '.join(missing)}.{again}"
    if job.mode is Mode.HISTORY and job.progress.total == 0:
        return "Done: every day was imported already."
    return "Done."


_SETUP = "This import is not set up right on our side, so we stopped."
#: What happened, by the kind of the error; for other kinds, the provider failed.
_HAPPENED = {
    "Malformed": "{who} kept sending answers that we cannot read, so we stopped.",
    "Forbidden": "{who} does not let us read this, so we stopped.",
    "PlanRequired": "Your plan does not include this, so we stopped.",
    "AddressRefused": _SETUP,
    "UnsendableMessage": _SETUP,
    "InvalidInput": _SETUP,
    "UnknownSync": _SETUP,
}


def _failed(job: Job, who: str) -> str:
    if job.reason is Reason.NEEDS_REAUTH:
        return f"{who} needs you to sign in again. Nothing is lost."
    kind = _kind(job)
    retryable = is_retryable(job.state, job.reason, kind)
    if job.reason is Reason.CRASHES_SPENT:
        happened = "We were interrupted again and again, so we stopped."
    elif kind in OURS and kind not in _HAPPENED:
        happened = _OUR_FAULT
    else:
        usual = "kept failing" if retryable else "refused our request"
        happened = _HAPPENED.get(kind, "{who} " + usual + ", so we stopped.").format(who=who)
    return f"{happened} {_SAFE} {_TRY_AGAIN if retryable else _SUPPORT}"


def _kind(job: Job) -> str:
    """The class of the job's last error."""
    return read_failure(job.error or "").kind or ""


def _format_when(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "at once"
    return f"{'at' if at > now else 'since'} {format_time(at)}"


def span(seconds: float) -> str:
    """A duration for people."""
    whole = round(seconds)
    if whole >= 86_400:
        return f"{whole // 86_400}d{whole % 86_400 // 3600}h"
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"


# ---- items and connections ---------------------------------------------------------------------


def explain_item(item: Item) -> str | None:
    """What happened to an item and what happens next, for its user; None where all is well."""
    match item.state:
        case ItemState.FAILED if item.next_attempt_at is None:
            return "It could not be fetched, and is not tried again by itself."
        case ItemState.FAILED:
            return f"It could not be fetched; trying again {_soon(item.next_attempt_at)}."
        case ItemState.DEFERRED:
            when = _soon(item.deferred_until)
            return f"The provider lets us ask for only so much at a time; going on {when}."
        case ItemState.UNAVAILABLE:
            return "The provider has nothing for it."
        case _:
            return None


def explain_connection(connection: Connection) -> str | None:
    """What is the matter with a connection and what to do, for its user; None: nothing."""
    match connection.state:
        case ConnectionState.PAUSED:
            return "It is paused: its jobs wait until it is resumed."
        case ConnectionState.NEEDS_REAUTH:
            return "The provider no longer lets us in: sign in again. Nothing is lost."
        case _:
            return None


def _soon(at: datetime | None) -> str:
    return "soon" if at is None else f"at {format_time(at)}"
