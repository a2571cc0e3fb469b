"""Control of jobs by people: pause, resume, cancel, retry now.

Each operation reads the job, decides, and writes under the token that it read. If the job changed
meanwhile, nothing is written, and the operation starts again. So a retry that races with a thaw, or
a cancel that races with the job's end, has exactly one of the legal outcomes.
"""

from collections.abc import Callable
from datetime import timedelta

from headgate.base.errors import Conflict, IllegalTransition, JobCancelled
from headgate.flow.jobs.hooks import call_on_end
from headgate.flow.runtime import Runtime
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.ports.signal import CONTROL, job_hints, lane_topic

#: How long a worker has to stop working on a job that is being cancelled.
CANCEL_DEADLINE = timedelta(seconds=30)
_TRIES_MAX = 10

#: Returns the change to make, or None if the job already is as requested.
Decide = Callable[[Job], JobChange | None]


async def pause(rt: Runtime, job_id: str, *, user_id: str | None = None) -> Job:
    """Pause the job until it is resumed; a running job stops at its next checkpoint."""

    def decide(job: Job) -> JobChange | None:
        match job.state:
            case JobState.PENDING:
                return change.pause(job)
            case JobState.RUNNING:
                return None if job.pause_requested else change.ask_pause(job)
            case JobState.PAUSED:
                # A cool-down ends by itself; an operator's pause does not.
                return None if job.reason is Reason.OPERATOR else change.keep_paused(job)
            case _:
                raise _refused(job, "be paused")

    return await _apply(rt, job_id, user_id, decide)


async def resume(rt: Runtime, job_id: str, *, user_id: str | None = None) -> Job:
    """Resume the job from where it stopped; withdraws a pause that has not taken effect yet."""

    def decide(job: Job) -> JobChange | None:
        match job.state:
            case JobState.PAUSED:
                return change.start_again(job, Reason.RESUMED)
            case JobState.RUNNING:
                return change.drop_pause(job) if job.pause_requested else None
            case JobState.PENDING:
                return None
            case _:
                raise _refused(job, "be resumed")

    return await _apply(rt, job_id, user_id, decide)


async def retry_now(rt: Runtime, job_id: str, *, user_id: str | None = None) -> Job:
    """Run a paused or failed job again at once."""

    def decide(job: Job) -> JobChange | None:
        match job.state:
            case JobState.PAUSED | JobState.FAILED:
                return change.start_again(job, Reason.RETRY_NOW)
            case JobState.PENDING | JobState.RUNNING:
                return None
            case _:
                raise _refused(job, "be retried")

    return await _apply(rt, job_id, user_id, decide)


async def cancel(
    rt: Runtime,
    job_id: str,
    *,
    user_id: str | None = None,
    deadline: timedelta = CANCEL_DEADLINE,
) -> Job:
    """Cancel the job: at once if no worker has it, else as soon as its worker stops."""

    def decide(job: Job) -> JobChange | None:
        match job.state:
            case JobState.PENDING | JobState.PAUSED:
                return change.cancel(job)
            case JobState.RUNNING:
                return change.ask_cancel(job, deadline=deadline)
            case JobState.CANCELLING | JobState.CANCELLED:
                return None
            case _:
                raise _refused(job, "be cancelled")

    return await _apply(rt, job_id, user_id, decide)


async def _apply(rt: Runtime, job_id: str, user_id: str | None, decide: Decide) -> Job:
    for _ in range(_TRIES_MAX):
        job = await rt.jobs.get(job_id, user_id=user_id)
        requested = decide(job)
        if requested is None:
            return job
        after = await rt.jobs.settle(requested)
        if after is not None:
            call_on_end(rt.registry, after)
            await rt.signal.announce(CONTROL)
            if after.state is JobState.PENDING:
                await rt.signal.announce(lane_topic(after.lane), job_hints([after]))
            return after
    raise Conflict(f"job {job_id} keeps changing; try again")


def _refused(job: Job, what: str) -> IllegalTransition:
    if job.state is JobState.CANCELLED:
        return JobCancelled(
            f"job {job.id} is cancelled and cannot {what}; imported data stays: start a new job"
        )
    return IllegalTransition(f"job {job.id} is {job.state.value} and cannot {what}")
