"""Ensuring that a sync runs for a connection: by a new job, or by the job that is active.

A webhook or a schedule calls this after it has durably stored new work for the job. Some chunk of
the job then begins after the call, so no work is missed and nobody polls. A job that fails or is
cancelled before has no successor: the new work waits for the next call.
"""

from collections.abc import Collection

from headgate.base.errors import ActiveJobExists, Conflict, InvalidInput
from headgate.flow.jobs.submit import JobRequest, named_mode, submit_unchecked
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.submission import SubmitResult
from headgate.ports.signal import job_hints, lane_topic

#: Others may change the job between the read and the write; then it is read again, so many times.
TRIES_MAX = 10


#: Why a job may sleep with nothing to wait for, after an interruption too;
_WOKEN = frozenset({Reason.IDLE, Reason.QUEUED, Reason.RESCUED})
#: and why one may that a person wants to run now: its last try failed.
_WOKEN_AT_ONCE = _WOKEN | {Reason.RETRYING}


async def ensure(
    rt: Runtime, request: JobRequest, *, restart: bool = False, at_once: bool = False
) -> SubmitResult:
    """Submit the job, or make the active job of its sync and connection run again.

    A sleeping job with nothing to wait for runs at once, from its cursor or, with `restart`, from
    the beginning; with `at_once`, also one that waits because its last try failed. A job that a
    worker has claimed starts again where it would end or rest. A job that is paused or waits for
    its provider runs when its time comes. An active backfill raises ActiveJobExists.
    """
    if named_mode(request) == Mode.HISTORY:
        raise InvalidInput("mode", "a backfill reads its days once; use submit instead")
    if request.key is not None:
        raise InvalidInput("key", "would find a job that has ended; leave it out")
    for _ in range(TRIES_MAX):
        try:
            return await submit_unchecked(rt, request)
        except ActiveJobExists as active:
            job = await rt.jobs.get(active.job_id)
        if job.mode is Mode.HISTORY:
            raise ActiveJobExists(job.id)
        rerun = _rerun_change(job, restart=restart, reasons=_WOKEN_AT_ONCE if at_once else _WOKEN)
        if rerun is None:
            if job.state in JOB.terminal:
                continue
            return SubmitResult(job, created=False)
        after = await rt.jobs.settle(rerun)
        if after is not None:
            if after.state is JobState.PENDING:
                await rt.signal.announce(lane_topic(after.lane), job_hints([after]))
            return SubmitResult(after, created=False)
    raise Conflict(f"the active job of sync {request.sync!r} keeps changing; try again")


def _rerun_change(job: Job, *, restart: bool, reasons: Collection[Reason]) -> JobChange | None:
    """The change that makes the job run again; None if it will anyway, or has ended."""
    if job.state is JobState.RUNNING and not job.rerun:
        return change.ask_rerun(job)
    asleep = job.state is JobState.PENDING and job.turn is None
    if asleep and job.reason in reasons:
        return change.wake_up(job, restart=restart)
    return None
