"""What is true of every change of a job on its walks through the table, and of every job.

Nothing here asks `meet` what is legal: the table in `model/states.py` does.
"""

from headgate.model.change import JOBS, JobChange
from headgate.model.job import Job, Reason
from headgate.model.states import JOB, JobEdge, JobState
from tests.unit.model.changes import (
    CLAIMED,
    CONSTRUCTORS,
    COUNTED,
    ENDS_CHUNK,
    apply,
    claim,
    fence_holds,
)
from tests.unit.model.walks import Walked
from tests.unit.values import make_job

#: Where a cancel or a pause that was asked meanwhile leads the holder's change elsewhere.
REDIRECTS = (JobEdge.ADVANCE, JobEdge.REST, JobEdge.PAUSE)


def check(row: Job) -> None:
    """What is true of every job, however it came about."""
    counts = (row.steps, row.attempts, row.crashes, row.deferrals, row.pauses, row.token)
    lifetime = [getattr(row.summary, name) for name in COUNTED]
    assert min(*counts, *lifetime) >= 0
    # Only a held job can be asked to pause, and only one with work before it can be the probe.
    assert not row.pause_requested or row.state in CLAIMED
    assert not row.probe or row.state in JOB.active
    # A job in line has a moment to start; one that an operator paused has none.
    if row.state is JobState.PENDING and row.reason is not Reason.QUEUED:
        assert row.wake_at is not None
    if row.state is JobState.PAUSED and row.reason is Reason.OPERATOR:
        assert row.wake_at is None


def _legal(row: Job, made: JobChange) -> bool:
    redirects = not made.is_request and made.edge.name in REDIRECTS
    return (row.state is JobState.CANCELLING and redirects) or row.state in made.edge.sources


def _check_redirect(before: Job, made: JobChange, after: Job) -> None:
    redirects = not made.is_request and made.edge.name in REDIRECTS
    if before.state is JobState.CANCELLING and redirects:
        assert (after.state, after.reason) == (JobState.CANCELLED, Reason.CANCELLED)
    elif before.pause_requested and (redirects or _runs_again(before, made)):
        assert (after.state, after.reason) == (JobState.PAUSED, Reason.OPERATOR)
        assert after.wake_at is None
    elif _runs_again(before, made):
        assert (after.state, after.reason, after.rerun) == (JobState.PENDING, Reason.MORE, False)
        assert after.wake_at is not None
    else:
        assert after.state is made.edge.target


def _runs_again(before: Job, made: JobChange) -> bool:
    return before.rerun and before.state is JobState.RUNNING and made.edge.name is JobEdge.SUCCEED


class JobWalk(Walked[Job]):
    """The walks of a job, which a request that was made meanwhile may lead elsewhere."""

    def tried(self, before: Job, name: str, *, read: Job) -> Job | None:
        """The row after a change made from what was read, checked against the table."""
        made = CONSTRUCTORS[name](read)
        after = apply(before, made)
        assert (after is not None) == (fence_holds(before, made) and _legal(before, made))
        if after is None:
            return None
        assert JOB.allows(before.state, after.state)
        assert after.token == before.token + made.fences
        assert after.steps == before.steps + (name in ENDS_CHUNK)
        if name in ENDS_CHUNK:
            # A job that runs again begins from the beginning.
            cursor = None if _runs_again(before, made) else made.after.cursor
            assert (after.cursor, after.summary) == (cursor, made.after.summary)
        if before.state in JOB.terminal:
            assert made.edge.name is JobEdge.RETRY
        _check_redirect(before, made, after)
        return after


WALKED = JobWalk(
    kind=JOBS,
    first=[make_job()],
    constructors=CONSTRUCTORS,
    # Judged by what each change says of itself.
    fencing=frozenset(),
    claimed=claim,
    is_due=lambda job: job.state is JobState.PENDING,
    check=check,
    identity=lambda job: (job.state, job.reason, job.pause_requested, job.probe),
)
