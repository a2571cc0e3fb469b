"""Every constructor of a change with plausible arguments, and what a store makes of a change.

`apply` is the guarded write without a database: as the model decides it.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from msgspec.structs import replace

from headgate.model import change
from headgate.model.change import JOBS, ChunkResult, JobChange, LockedJob, apply_requests
from headgate.model.job import Job, Progress, Reason, Summary
from headgate.model.states import JobState
from tests.unit.values import NOW

CLAIMED = (JobState.RUNNING, JobState.CANCELLING)
LEASE = timedelta(seconds=30)
QUARTER = timedelta(minutes=15)
DATA = {"records": 2}


def tally(job: Job, *, days_failed: int = 0) -> ChunkResult:
    """Where `job` stands after its next chunk."""
    done = job.steps + 1
    summary = change.count(job.summary, chunks=1, records=2, days_failed=days_failed)
    return ChunkResult(cursor=f"page {done}", progress=Progress(done=done), summary=summary)


def skip(job: Job, *, last: bool) -> JobChange:
    """The present day is given up."""
    day = date(2026, 2, 28)
    return change.skip(job, tally(job, days_failed=1), error="Transient: x", day=day, last=last)


def retry(job: Job) -> JobChange:
    """The chunk failed just now."""
    recent = (*job.recent_errors, NOW)
    after = timedelta(seconds=5)
    return change.retry(job, after=after, error="Transient: x", recent_errors=recent)


CONSTRUCTORS: dict[str, Callable[[Job], JobChange]] = {
    "advance": lambda job: change.advance(job, tally(job), DATA),
    "cut_short": lambda job: change.cut_short(job, tally(job), DATA),
    "rest": lambda job: change.rest(job, tally(job), DATA),
    "succeed": lambda job: change.succeed(job, tally(job), DATA),
    "skip": lambda job: skip(job, last=False),
    "skip the last": lambda job: skip(job, last=True),
    "retry": retry,
    "defer": lambda job: change.defer(job, after=QUARTER, reason=Reason.RATE_LIMITED, note="x"),
    "open_breaker": lambda job: change.open_breaker(job, cooldown=timedelta(hours=1), error="x"),
    "fail": lambda job: change.fail(job, reason=Reason.REFUSED, error="Forbidden: x"),
    "release": change.release,
    "rescue": lambda job: change.rescue(job, after=timedelta(0)),
    "give_up": change.give_up,
    "pass_probe_on": change.pass_probe_on,
    "thaw": lambda job: change.thaw(job, probe=False),
    "thaw as a probe": lambda job: change.thaw(job, probe=True),
    "ask_cancel": lambda job: change.ask_cancel(job, deadline=LEASE),
    "cancel": change.cancel,
    "pause": change.pause,
    "ask_pause": change.ask_pause,
    "drop_pause": change.drop_pause,
    "ask_rerun": change.ask_rerun,
    "wake_up": change.wake_up,
    "keep_paused": change.keep_paused,
    "start_again": lambda job: change.start_again(job, Reason.RETRY_NOW),
}

#: What the engine counts over a job's life.
COUNTED = tuple(name for name in Summary.__struct_fields__ if name not in ("counts", "pace"))
#: What ends a chunk: these carry the chunk's cursor, tally and step.
ENDS_CHUNK = ("advance", "cut_short", "rest", "succeed", "skip", "skip the last")


def claim(job: Job) -> Job:
    """A worker takes the job, as the store's claim does."""
    assert job.state is JobState.PENDING
    return replace(
        job,
        state=JobState.RUNNING,
        reason=Reason.WORKING,
        token=job.token + 1,
        lease_until=NOW + LEASE * job.token,
        worker="worker_1",
        wake_at=None,
    )


def locked(row: Job, **differs: Any) -> LockedJob:
    """The row as a store finds it under its lock."""
    found = {
        name: NOW if name == "now" else getattr(row, name) for name in LockedJob.__struct_fields__
    }
    return LockedJob(**{**found, **differs})


def meet(made: JobChange, state: JobState, *, pause_requested: bool) -> JobChange | None:
    """What becomes of the change where the row is as it was read, but for these two."""
    return apply_requests(made, locked(made.before, state=state, pause_requested=pause_requested))


def fence_holds(row: Job, made: JobChange) -> bool:
    """Whether nobody else has claimed the job, or committed a chunk of it, since it was read."""
    same_lease = made.lease_seen is None or made.lease_seen == row.lease_until
    same_claim = (row.token, row.steps) == (made.before.token, made.before.steps)
    return same_claim and same_lease


def apply(row: Job, made: JobChange) -> Job | None:
    """The row after the change, or None where the race was lost."""
    settled = JOBS.apply(made, locked(row))
    return None if settled is None else settled[1]
