"""How a job stands, for whoever waits for it: one value behind the API, the command line, the page.

Everything in it comes from the store. What depends on the present moment is told as times, so that
it stays the same until something happens.
"""

from collections.abc import Sequence

import msgspec

from headgate.base.encoding import JsonObject
from headgate.flow.explain import explain, needs_worker
from headgate.flow.runtime import Runtime
from headgate.model.forecast import Finish
from headgate.model.job import Job, Mode, Reason
from headgate.model.record import CoverageRow
from headgate.model.states import JOB, JobState
from headgate.policy.forecast import SAMPLES_MAX, eta

#: Days that are told with their reasons; how many there are is told anyway.
GAPS_MAX = 50
#: While a worker is at it, and while it rests.
POLL_WORKING_S, POLL_RESTING_S = 5, 10


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and what people want to know of it."""

    job: Job
    #: What is going on, in a sentence.
    sentence: str
    #: None once it has ended, and while there is too little to tell by.
    finish: Finish | None = None
    #: It should have ended by now.
    late: bool = False
    #: Days that could not be imported, or only in part, each with its reason; the newest first.
    gaps: tuple[CoverageRow, ...] = ()
    #: How long to wait before asking again; None once it has ended.
    poll_after_s: int | None = None
    #: The provider that the user has to sign in to again, and the connection.
    reconnect: str | None = None
    reconnect_id: str | None = None

    @property
    def percent(self) -> float | None:
        """0 to 100, by work done; None while the whole is not known."""
        return self.job.progress.percent


async def status_of(rt: Runtime, job_id: str, *, user_id: str | None = None) -> JobStatus:
    """How the job stands; NotFound where it is not that user's."""
    job = await rt.store.get(job_id, user_id=user_id)
    now = rt.clock.now()
    ended = job.state in JOB.terminal
    finish = None
    if not ended and job.progress.total:
        done_at = await rt.store.pace(job.id, limit=SAMPLES_MAX)
        finish = eta(job.progress, done_at, rests_until=job.wake_at)
    late = finish is not None and finish.latest < now
    return JobStatus(
        job=job,
        sentence=(await sentences(rt, [job]))[0],
        finish=None if late else finish,
        late=late,
        gaps=await _gaps(rt, job),
        poll_after_s=None if ended else _poll_after_s(job),
        **_reconnect(job),
    )


async def sentences(rt: Runtime, jobs: Sequence[Job]) -> list[str]:
    """What is going on with each job, in a sentence; one look at the workers serves them all."""
    now = rt.clock.now()
    waiting = any(needs_worker(job, now) for job in jobs)
    workers = await rt.store.live_workers() if waiting else None
    titles = rt.registry.titles
    return [explain(job, now=now, titles=titles, workers=workers) for job in jobs]


async def _gaps(rt: Runtime, job: Job) -> tuple[CoverageRow, ...]:
    # Only a job that met some has any to look for.
    if job.mode is not Mode.HISTORY or not (job.summary.days_failed or job.summary.refused):
        return ()
    return tuple(await rt.store.gaps(job.id, job.sync, job.connection_id, limit=GAPS_MAX))


def _poll_after_s(job: Job) -> int:
    return POLL_WORKING_S if job.state is JobState.RUNNING else POLL_RESTING_S


def _reconnect(job: Job) -> dict[str, str | None]:
    if job.state is not JobState.FAILED or job.reason is not Reason.NEEDS_REAUTH:
        return {}
    at_destination = job.provider == job.destination
    connection = job.destination_connection_id if at_destination else job.connection_id
    return {"reconnect": job.provider, "reconnect_id": connection}


def document(status: JobStatus) -> JsonObject:
    """The same as a document: what the API answers and what `--json` prints."""
    reconnect = None
    if status.reconnect is not None:
        reconnect = {"provider": status.reconnect, "connection_id": status.reconnect_id}
    rest = {
        "finish": status.finish,
        "late": status.late,
        "gaps": [
            {"day": gap.day, "status": gap.status, "reason": gap.error} for gap in status.gaps
        ],
        "poll_after_s": status.poll_after_s,
        "reconnect": reconnect,
    }
    return {**line(status.job, status.sentence), **msgspec.to_builtins(rest)}


def line(job: Job, sentence: str) -> JsonObject:
    """A job in a list: as much of the document as its row and its sentence tell."""
    summary, progress = job.summary, job.progress
    stored = summary.inserted + summary.updated + summary.unchanged
    told = {
        "id": job.id,
        "user_id": job.user_id,
        "sync": job.sync,
        "source": job.source,
        "destination": job.destination,
        "connection_id": job.connection_id,
        "destination_connection_id": job.destination_connection_id,
        "mode": job.mode,
        "lane": job.lane,
        "state": job.state,
        "reason": job.reason,
        "sentence": sentence,
        "percent": progress.percent,
        "progress": {"done": progress.done, "total": progress.total, "at": progress.at},
        "start_date": job.start_date,
        "end_date": job.end_date,
        "cursor_date": job.cursor_date,
        "wake_at": job.wake_at,
        "high_water": job.high_water,
        "counts": {
            "found": summary.records,
            "imported": stored if job.destination is None else summary.delivered,
            "refused": summary.refused,
            "days_held": summary.days_held,
            "days_empty": summary.days_empty,
            "days_failed": summary.days_failed,
            "errors": summary.errors,
        },
        "source_counts": summary.counts,
        "error": job.error,
        "error_count": len(job.recent_errors),
        "last_attempt_at": job.attempted_at,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
    }
    shown: dict[str, object] = msgspec.to_builtins(told)
    return shown
