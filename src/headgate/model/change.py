"""Changes of jobs, as values: one constructor per transition, applied by one guarded write.

A constructor takes the job as it was read and returns a `JobChange` with the row as it should
become. The store writes the change only if the row still has the expected state and the claim's
token; otherwise another writer won the race, and nothing is written.

A worker does not know whether somebody has asked for a cancel, a pause or another run meanwhile.
The store reads that under the row's lock, and `apply_requests` changes where the job goes.
"""

from datetime import date, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import Json, JsonObject
from headgate.model.job import EventKind, Job, Progress, Reason, Summary
from headgate.model.lease import AT_ONCE, Change, LeasedType, LockedRow
from headgate.model.states import JOB, Edge, JobEdge, JobState

#: What a cancel or a pause that was asked for meanwhile takes the place of.
_OF_WORKER = (JobEdge.ADVANCE, JobEdge.REST, JobEdge.PAUSE)
#: What is told where people set a job going again, by their reason.
_STARTS_AGAIN = {Reason.RESUMED: EventKind.RESUMED, Reason.RETRY_NOW: EventKind.RETRY_NOW}


class JobChange(Change[Job], frozen=True, gc=False, kw_only=True):
    """One transition of one job, not yet applied."""

    edge: Edge[JobEdge, JobState]
    event: EventKind
    data: JsonObject
    #: Ask the worker to pause at its next checkpoint, or withdraw that; None: leave it unchanged.
    pause_requested: bool | None = None
    #: Ask the worker to run the job again where it would end; None: the change itself decides.
    rerun: bool | None = None

    @property
    def is_request(self) -> bool:
        """Whether the change only asks something of the worker, which keeps its claim."""
        return self.pause_requested is not None or self.rerun is not None


class LockedJob(LockedRow):
    """The columns of a job's row under the store's lock that the rules need."""

    pause_requested: bool
    rerun: bool
    #: A change that was made before the worker's last checkpoint must not overwrite it.
    steps: int


class ChunkResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The job's position and counts after a chunk, for every change that ends a chunk."""

    cursor: Json
    progress: Progress
    summary: Summary
    high_water: Json = None
    #: Whether the provider that a probe tests was asked something, and answered.
    answered: bool = True


def _change(
    job: Job,
    edge: JobEdge,
    reason: Reason,
    event: EventKind,
    *,
    becomes: Job | None = None,
    wake: timedelta | None = None,
    data: JsonObject | None = None,
    lease_seen: datetime | None = None,
    fences: bool = False,
    pause_requested: bool | None = None,
    rerun: bool | None = None,
) -> JobChange:
    to = JOB.edge(edge)
    return JobChange(
        before=job,
        after=replace(becomes or job, state=to.target, reason=reason),
        edge=to,
        wake=wake,
        event=event,
        data=data or {},
        lease_seen=lease_seen,
        fences=fences,
        pause_requested=pause_requested,
        rerun=rerun,
    )


def _after_chunk(job: Job, result: ChunkResult) -> Job:
    """The job after a successful chunk, with the counters of the chunk at zero.

    A probe stays a probe until the provider that it tests was asked and has answered.
    """
    return replace(
        job,
        cursor=result.cursor,
        high_water=result.high_water,
        progress=result.progress,
        summary=result.summary,
        steps=job.steps + 1,
        attempts=0,
        recent_errors=(),
        crashes=0,
        deferrals=0,
        pauses=0,
        probe=job.probe and not result.answered,
        error=None,
    )


# ---- by the worker that has claimed the job ----------------------------------------------------


def advance(job: Job, result: ChunkResult, data: JsonObject) -> JobChange:
    """A chunk is done and the slice goes on; the worker keeps the claim."""
    becomes = _after_chunk(job, result)
    return _change(
        job, JobEdge.ADVANCE, Reason.WORKING, EventKind.CHUNK, becomes=becomes, data=data
    )


def cut_short(job: Job, result: ChunkResult, data: JsonObject) -> JobChange:
    """A chunk read something before it failed: this commits that, and the failure is handled next.

    The counters are not reset, so a chunk that keeps failing half-way is given up like any other.
    """
    becomes = replace(
        job,
        cursor=result.cursor,
        high_water=result.high_water,
        progress=result.progress,
        summary=result.summary,
        steps=job.steps + 1,
    )
    return _change(
        job, JobEdge.ADVANCE, Reason.WORKING, EventKind.CHUNK, becomes=becomes, data=data
    )


def rest(
    job: Job, result: ChunkResult, data: JsonObject, *, after: timedelta = AT_ONCE
) -> JobChange:
    """A chunk is done and the slice is over: the job returns to the queue, at once or later."""
    becomes = _after_chunk(job, result)
    reason = Reason.IDLE if after > AT_ONCE else Reason.MORE
    return _change(
        job, JobEdge.REST, reason, EventKind.CHUNK, becomes=becomes, wake=after, data=data
    )


def succeed(job: Job, result: ChunkResult, data: JsonObject) -> JobChange:
    """The last chunk is done."""
    missing = result.summary.days_failed or result.summary.refused
    reason = Reason.DONE_WITH_GAPS if missing else Reason.DONE
    becomes = _after_chunk(job, result)
    return _change(job, JobEdge.SUCCEED, reason, EventKind.SUCCEEDED, becomes=becomes, data=data)


def skip(job: Job, result: ChunkResult, *, error: str, day: date, last: bool) -> JobChange:
    """The present day is given up and recorded as a gap; the job goes on with the next day."""
    # A probe stays a probe: a day given up does not show that the provider has recovered.
    becomes = replace(_after_chunk(job, result), error=error, probe=job.probe and not last)
    data = {"day": day.isoformat(), "error": error}
    edge, reason = (JobEdge.SUCCEED, Reason.DONE_WITH_GAPS) if last else (JobEdge.REST, Reason.MORE)
    wake = None if last else AT_ONCE
    return _change(job, edge, reason, EventKind.DAY_FAILED, becomes=becomes, wake=wake, data=data)


def retry(
    job: Job,
    *,
    after: timedelta,
    error: str,
    recent_errors: tuple[datetime, ...],
    provider: str | None = None,
) -> JobChange:
    """The chunk failed and is tried again after a while."""
    becomes = replace(
        job,
        error=error,
        provider=provider or job.source,
        attempts=job.attempts + 1,
        recent_errors=recent_errors,
        # A probe is tried again only after an error of our own; then another can be the probe.
        probe=False,
        summary=count(job.summary, errors=1),
    )
    data = {"error": error, "attempt": job.attempts + 1, "after_s": after.total_seconds()}
    return _change(
        job, JobEdge.REST, Reason.RETRYING, EventKind.RETRY, becomes=becomes, wake=after, data=data
    )


def defer(
    job: Job, *, after: timedelta, reason: Reason, note: str, provider: str | None = None
) -> JobChange:
    """The chunk has to wait; it counts as no attempt."""
    becomes = replace(
        job,
        # A probe stays with the provider that it tests.
        provider=job.provider if job.probe else provider or job.source,
        deferrals=job.deferrals + 1,
        summary=count(job.summary, deferrals=1),
    )
    data = {"after_s": after.total_seconds(), "note": note}
    return _change(
        job, JobEdge.REST, reason, EventKind.DEFERRED, becomes=becomes, wake=after, data=data
    )


def open_breaker(
    job: Job,
    *,
    cooldown: timedelta,
    error: str,
    recent_errors: tuple[datetime, ...] = (),
    provider: str | None = None,
) -> JobChange:
    """Too many failures: the job is paused until its cool-down is over.

    The recent failures stay visible during the pause.
    """
    becomes = replace(
        job,
        error=error,
        provider=provider or job.source,
        attempts=0,
        recent_errors=recent_errors,
        deferrals=0,
        pauses=job.pauses + 1,
        probe=False,
        summary=count(job.summary, errors=1, pauses=1),
    )
    data = {"error": error, "cooldown_s": cooldown.total_seconds(), "pause": becomes.pauses}
    return _change(
        job,
        JobEdge.PAUSE,
        Reason.BREAKER,
        EventKind.BREAKER_OPENED,
        becomes=becomes,
        wake=cooldown,
        data=data,
    )


def fail(job: Job, *, reason: Reason, error: str, provider: str | None = None) -> JobChange:
    """The job fails, because trying again cannot help."""
    becomes = replace(
        job,
        error=error,
        provider=provider or job.source,
        probe=False,
        summary=count(job.summary, errors=1),
    )
    data = {"error": error, "reason": reason.value}
    return _change(job, JobEdge.FAIL, reason, EventKind.FAILED, becomes=becomes, data=data)


def release(job: Job) -> JobChange:
    """The worker is stopping and releases the job unchanged, for any worker."""
    return _change(
        job, JobEdge.REST, Reason.RELEASED, EventKind.RELEASED, wake=AT_ONCE, fences=True
    )


# ---- by the rescuer ----------------------------------------------------------------------------


def rescue(job: Job, *, after: timedelta, counts: bool = True) -> JobChange:
    """The lease has expired, so the worker is lost. It counts as a crash, not as an error."""
    crashes = job.crashes + counts
    summary = count(job.summary, crashes=int(counts))
    return _change(
        job,
        JobEdge.REST,
        Reason.RESCUED,
        EventKind.RESCUED,
        becomes=replace(job, crashes=crashes, summary=summary),
        wake=after,
        data={"worker": job.worker or "", "crash": crashes},
        lease_seen=job.lease_until,
        fences=True,
    )


def give_up(job: Job) -> JobChange:
    """The chunk has lost too many workers: the job fails."""
    crashes = job.crashes + 1
    error = f"the worker was lost {crashes} times on the same chunk"
    summary = count(job.summary, crashes=1)
    return _change(
        job,
        JobEdge.FAIL,
        Reason.CRASHES_SPENT,
        EventKind.FAILED,
        becomes=replace(job, error=error, probe=False, crashes=crashes, summary=summary),
        data={"error": error, "reason": Reason.CRASHES_SPENT.value},
        lease_seen=job.lease_until,
        fences=True,
    )


def pass_probe_on(job: Job) -> JobChange:
    """No live worker can run this probe: the job is paused again, and another can be the probe."""
    becomes = replace(job, probe=False)
    return _change(
        job,
        JobEdge.PAUSE,
        Reason.BREAKER,
        EventKind.PAUSED,
        becomes=becomes,
        wake=AT_ONCE,
        fences=True,
    )


def thaw(job: Job, *, probe: bool) -> JobChange:
    """The cool-down is over: the job goes on, as the probe of its provider or after one."""
    reason = Reason.PROBE if probe else Reason.RECOVERING
    return _change(
        job,
        JobEdge.THAW,
        reason,
        EventKind.THAWED,
        becomes=replace(job, probe=probe, recent_errors=()),
        wake=AT_ONCE,
        data={"probe": probe},
        # Fenced: a change made before the job became a probe must not be applied after it.
        fences=True,
    )


# ---- by people, and by those who carry out their requests --------------------------------------


def ask_cancel(job: Job, *, deadline: timedelta) -> JobChange:
    """Ask the worker that has claimed the job to cancel it before the deadline."""
    return _change(
        job, JobEdge.ASK_CANCEL, Reason.CANCEL_ASKED, EventKind.CANCEL_ASKED, wake=deadline
    )


def cancel(job: Job, reason: Reason = Reason.CANCELLED) -> JobChange:
    """Cancel the job: no worker has it, its worker lets go, or its worker's claim ends."""
    becomes = replace(job, probe=False)
    return _change(job, JobEdge.CANCEL, reason, EventKind.CANCELLED, becomes=becomes, fences=True)


def pause(job: Job) -> JobChange:
    """Pause a job that no worker has, until it is resumed."""
    becomes = replace(job, probe=False)
    return _change(
        job, JobEdge.PAUSE, Reason.OPERATOR, EventKind.PAUSED, becomes=becomes, fences=True
    )


def ask_pause(job: Job) -> JobChange:
    """Ask the worker that has claimed the job to pause it at the next checkpoint."""
    return _change(job, JobEdge.ADVANCE, job.reason, EventKind.PAUSE_ASKED, pause_requested=True)


def drop_pause(job: Job) -> JobChange:
    """Withdraw a request to pause that has not taken effect yet."""
    return _change(job, JobEdge.ADVANCE, job.reason, EventKind.PAUSE_DROPPED, pause_requested=False)


def ask_rerun(job: Job) -> JobChange:
    """New work arrived: ask the worker to run the job again where it would end or rest."""
    return _change(job, JobEdge.ADVANCE, job.reason, EventKind.RERUN_ASKED, rerun=True)


def wake_up(job: Job, *, restart: bool = False) -> JobChange:
    """New work arrived: wake a sleeping job at once, from its cursor or from the beginning."""
    becomes = replace(job, cursor=None) if restart else job
    return _change(job, JobEdge.WAKE, Reason.MORE, EventKind.WOKEN, becomes=becomes, wake=AT_ONCE)


def keep_paused(job: Job) -> JobChange:
    """Turn a cool-down into an operator's pause, which does not end by itself."""
    # Fenced: a slow rescuer may already have decided to thaw the job.
    return _change(job, JobEdge.STAY_PAUSED, Reason.OPERATOR, EventKind.PAUSED, fences=True)


def start_again(job: Job, reason: Reason) -> JobChange:
    """Resume or retry the job from where it stopped, with all counters at zero."""
    edge = JobEdge.THAW if job.state is JobState.PAUSED else JobEdge.RETRY
    becomes = replace(
        job,
        error=None,
        attempts=0,
        recent_errors=(),
        crashes=0,
        deferrals=0,
        pauses=0,
        probe=False,
    )
    return _change(job, edge, reason, _STARTS_AGAIN[reason], becomes=becomes, wake=AT_ONCE)


# ---- applying a change to the row as it is now -------------------------------------------------


def apply_requests(change: JobChange, locked: LockedJob) -> JobChange | None:
    """`change` with the requests that the locked row carries; None if the race was lost.

    The work of the chunk is committed in any case: a request to cancel, to pause or to run again
    only changes where the job goes after it.
    """
    if locked.steps != change.before.steps:
        return None
    if locked.rerun and locked.state is JobState.RUNNING and _finds_nothing(change):
        # From the beginning, because the new work may be anywhere.
        change = _follow_edge(change, JobEdge.REST, Reason.MORE, EventKind.CHUNK, wake=AT_ONCE)
        change = replace(change, after=replace(change.after, cursor=None))
    from_worker = not change.is_request and change.edge.name in _OF_WORKER
    if locked.state is JobState.CANCELLING and from_worker:
        return _follow_edge(change, JobEdge.CANCEL, Reason.CANCELLED, EventKind.CANCELLED)
    if locked.state not in change.edge.sources:
        return None
    if locked.pause_requested and from_worker:
        return _follow_edge(change, JobEdge.PAUSE, Reason.OPERATOR, EventKind.PAUSED)
    return change


def _finds_nothing(change: JobChange) -> bool:
    """Whether the worker ends the job, or lets it rest because there was nothing to do."""
    return change.edge.name is JobEdge.SUCCEED or change.after.reason is Reason.IDLE


def _follow_edge(
    change: JobChange,
    edge: JobEdge,
    reason: Reason,
    event: EventKind,
    *,
    wake: timedelta | None = None,
) -> JobChange:
    to = JOB.edge(edge)
    after = replace(change.after, state=to.target, reason=reason, probe=False)
    data = {**change.data, "after": change.event}
    return replace(change, after=after, edge=to, wake=wake, event=event, data=data)


def _fill(change: JobChange, locked: LockedJob) -> dict[str, Any]:
    pause_requested = (
        locked.pause_requested if change.pause_requested is None else change.pause_requested
    )
    # A worker that goes on begins its next chunk now.
    goes_on = change.edge.name is JobEdge.ADVANCE and not change.is_request
    # Any other change clears the flag: the next chunk begins after the new work arrived.
    rerun = locked.rerun and change.is_request if change.rerun is None else change.rerun
    return {
        "pause_requested": pause_requested and JOBS.keeps_claim(change),
        "rerun": rerun,
        "attempted_at": locked.now if goes_on else change.after.attempted_at,
        "finished_at": locked.now if change.edge.target in JOB.terminal else None,
        # A job that is due at once joins the end of the queue; the store fills its turn in.
        "turn": None,
    }


def _is_written(change: JobChange, job: Job) -> bool:
    """Compare the committed chunks, because a request may have changed the job's state."""
    return job.steps == change.after.steps


JOBS = LeasedType(
    machine=JOB,
    row=Job,
    locked=LockedJob,
    wake="wake_at",
    always=("reason", "pause_requested", "rerun", "turn", "finished_at"),
    if_changed=(
        "error",
        "provider",
        "cursor",
        "high_water",
        "steps",
        "attempts",
        "recent_errors",
        "crashes",
        "deferrals",
        "pauses",
        "probe",
        "progress",
        "summary",
        "attempted_at",
    ),
    resolve=apply_requests,
    fill=_fill,
    is_written=_is_written,
)


def count(summary: Summary, **more: int) -> Summary:
    """The summary with `more` added to its counts."""
    counted = {name: getattr(summary, name) + count for name, count in more.items()}
    return replace(summary, **counted)
