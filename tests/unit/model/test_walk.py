"""Random and exhaustive walks over the job table, with changes made from stale reads.

Nothing here asks `meet` what is legal: the table in `model/states.py` does.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headgate.model.change import JobChange
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
from tests.unit.values import make_job

#: Where a cancel or a pause that was asked meanwhile leads the holder's change elsewhere.
REDIRECTS = (JobEdge.ADVANCE, JobEdge.REST, JobEdge.PAUSE)


class Walk(RuleBasedStateMachine):
    """One job, a worker, a sweeper and operators, each acting on what it read some time ago."""

    reads = Bundle[Job]("reads")

    @initialize(target=reads)
    def submit(self) -> Job:
        self.row = make_job()
        self.highest_token = 0
        self.most_steps = 0
        return self.row

    @rule(target=reads)
    def read(self) -> Job:
        return self.row

    @precondition(lambda self: self.row.state is JobState.PENDING)
    @rule(target=reads)
    def claim(self) -> Job:
        self.row = claim(self.row)
        return self.row

    @rule(name=st.sampled_from(sorted(CONSTRUCTORS)))
    def change_now(self, name: str) -> None:
        self.row = tried(self.row, name, read=self.row) or self.row

    @rule(name=st.sampled_from(sorted(CONSTRUCTORS)), read=reads)
    def change_what_was_read(self, name: str, read: Job) -> None:
        self.row = tried(self.row, name, read=read) or self.row

    @invariant()
    def token_and_steps_never_fall(self) -> None:
        assert self.row.token >= self.highest_token
        assert self.row.steps >= self.most_steps
        self.highest_token, self.most_steps = self.row.token, self.row.steps

    @invariant()
    def the_row_is_sound(self) -> None:
        check(self.row)


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


def tried(before: Job, name: str, *, read: Job) -> Job | None:
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


Walk.TestCase.settings = settings(stateful_step_count=40)
TestWalk = Walk.TestCase


def test_the_constructors_bring_about_every_change_of_the_table_and_no_other() -> None:
    # Given everything that can become of a job, counters and tokens aside
    seen: set[tuple[JobState, Reason, bool, bool]] = set()
    changes: set[tuple[JobState, JobState]] = set()
    ahead = [make_job()]
    while ahead:
        job = ahead.pop()
        kind = (job.state, job.reason, job.pause_requested, job.probe)
        if kind in seen:
            continue
        seen.add(kind)
        check(job)

        # When every change is tried on it
        after = [tried(job, name, read=job) for name in CONSTRUCTORS]
        if job.state is JobState.PENDING:
            after.append(claim(job))
        possible = [each for each in after if each is not None]
        changes |= {(job.state, each.state) for each in possible}
        ahead += possible

    # Then every state was reached, by all the ways of the table and by nothing else
    assert {state for state, _, _, _ in seen} == set(JobState)
    assert changes == {(source, edge.target) for edge in JOB.edges for source in edge.sources}
