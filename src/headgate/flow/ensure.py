"""Making sure that a sync will look at a connection: by a new job, or by the one that is active.

Whoever notes something that a job is to see to, such as a webhook or a schedule, calls this after
it is durable. When it returns, a chunk of that job begins later than that: nothing is polled, and
nobody sleeps. A job that fails or is cancelled before has no successor: what was noted waits for
the next call.
"""

from headgate.base.errors import ActiveJobExists, Conflict, InvalidInput
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, submit
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.signal import lane_topic
from headgate.ports.store import SubmitResult

#: Others may change the job between the look and the write: look again so often.
TRIES_MAX = 10


async def ensure(rt: Runtime, request: JobRequest, *, restart: bool = False) -> SubmitResult:
    """Submit the job, or have the active one of its sync and connection look again.

    A job that sleeps without need looks at once: from where it stands, or with `restart` from the
    beginning. One that a worker has begins anew where it would have ended or gone to sleep. One
    that waits for its provider, or is paused, looks when its time comes. A backfill looks at its
    days and nothing else: it is ActiveJobExists, and so is another user's job.
    """
    if request.mode == Mode.HISTORY:
        raise InvalidInput("mode", "a backfill reads its days once; submit it")
    for _ in range(TRIES_MAX):
        try:
            return await submit(rt, request)
        except ActiveJobExists as active:
            job = await rt.store.get(active.job_id)
        if job.mode is Mode.HISTORY or job.user_id != request.user_id:
            raise ActiveJobExists(job.id)
        wanted = _look_again(job, restart=restart)
        if wanted is None:
            if job.state in JOB.terminal:
                continue
            return SubmitResult(job, created=False)
        after = await rt.store.settle(wanted)
        if after is not None:
            if after.state is JobState.PENDING:
                await rt.signal.announce(lane_topic(after.lane))
            return SubmitResult(after, created=False)
    raise Conflict(f"the active job of sync {request.sync!r} keeps changing; try again")


def _look_again(job: Job, *, restart: bool) -> JobChange | None:
    """The change that makes the job look again; None where it will, or has ended."""
    if job.state is JobState.RUNNING and not job.rerun:
        return change.ask_rerun(job)
    asleep = job.state is JobState.PENDING and job.turn is None
    if asleep and job.reason in (Reason.IDLE, Reason.QUEUED):
        return change.wake_up(job, restart=restart)
    return None
