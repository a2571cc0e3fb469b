"""Whether a chunk that keeps failing fails alone, or together with others.

A day is given up only for a problem of that day. Before that, another day is tried: if it fails
too, the provider is down or the connector is broken, and the day is not to blame.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

from msgspec.structs import replace

from headgate.base.errors import (
    AuthExpired,
    ConnectorBug,
    Deferred,
    SourceError,
    StoreFault,
    Transient,
)
from headgate.flow.estimate.effort import ChunkTimes
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.flow.step.claimed_job import ClaimedJob, Interrupt, Interrupted
from headgate.flow.step.connector_bug import classify
from headgate.flow.step.extract import extract
from headgate.flow.step.open_api import open_destination
from headgate.flow.step.receipts import claim_records
from headgate.flow.step.write_chunk import write_chunk
from headgate.model.job import Job, Mode
from headgate.model.states import DayStatus
from headgate.policy.calendar import DAY, day_after, trial_day
from headgate.policy.retry import is_ours

#: How far a day that was read before is looked for: the days that the job has just read.
KNOWN_DAYS = timedelta(days=60)
#: The most days that are read to find one with records for the destination.
WRITE_TRIALS_MAX = 7
#: Above every count of pauses.
_ANY_PAUSES = 1_000_000_000


async def find_outage(
    rt: Runtime,
    claimed: ClaimedJob,
    job: Job,
    error: Exception,
    *,
    times: ChunkTimes,
    abandon: Callable[[], None],
) -> Exception | None:
    """The error to judge by if others fail as `job` does; None if its present chunk is to blame.

    It is the chunk's own error, or what kept the trial from telling. Raises Interrupted if the
    worker must stop working on the job meanwhile; `abandon` is called if the trial does not end
    when its time is over.
    """
    sync = rt.registry.get(job.sync)
    at_fault = error.provider if isinstance(error, SourceError) else None
    try:
        if not is_ours(error) and await _fails_others(rt, sync, job, at_fault or job.source):
            return error
        if job.mode is not Mode.HISTORY:
            return None
        with claimed.interruptible(seconds=sync.chunk_s_max, abandon=abandon):
            if at_fault is None or at_fault != job.destination:
                works = await _reads_another_day(rt, sync, job, times)
            else:
                works = await _writes_another_day(rt, claimed, sync, job, times)
    except Interrupted as interrupted:
        if interrupted.reason is not Interrupt.LATE:
            raise
        return _worse(error, Transient("another day took too long"))
    except Exception as raised:
        # Another day failed as well, or the store did: nothing is given up for either.
        return _worse(error, classify(raised))
    return None if works else error


def _worse(error: Exception, of_trial: Exception) -> Exception:
    """The error to judge by: that of the trial, if it tells nothing about the chunk's own."""
    if is_ours(error):
        return error if isinstance(of_trial, ConnectorBug) else of_trial
    return of_trial if isinstance(of_trial, Deferred | AuthExpired | StoreFault) else error


async def _fails_others(rt: Runtime, sync: Sync, job: Job, provider: str) -> bool:
    """Whether the provider fails other users too; a job that never pauses does not wait for it."""
    if not job.pauses:
        return False
    # Another day can be tried, so those who are about to try one themselves are left out: two
    # users, each with a bad day of their own, would wait for each other.
    history = job.mode is Mode.HISTORY
    below = sync.retry.pauses_max if history else _ANY_PAUSES
    return await rt.breakers.fails_others(job, provider, pauses_below=below)


async def _reads_another_day(rt: Runtime, sync: Sync, job: Job, times: ChunkTimes) -> bool:
    """Read another day and drop what it brings; raises what the source raises."""
    day = job.cursor_date
    assert day is not None
    rows = await rt.coverage.list_days(sync.name, job.connection_id, day + DAY, day + KNOWN_DAYS)
    known = [row.day for row in rows if row.status is not DayStatus.FAILED]
    other = known[0] if known else trial_day(day, job.pauses)
    await extract(rt, sync, replace(job, cursor=other.isoformat()), times.at(job.source))
    return True


async def _writes_another_day(
    rt: Runtime, claimed: ClaimedJob, sync: Sync, job: Job, times: ChunkTimes
) -> bool:
    """Write the next day with records, as the job itself will do; False if none is near.

    It is written under the key that its chunk will have, so that the destination accepts it once,
    as if the worker had crashed before its commit.
    """
    for ahead in _days_ahead(job):
        chunk = await extract(rt, sync, ahead, times.at(job.source))
        if chunk.error is not None:
            raise chunk.error
        # The records are claimed for the present chunk, which is the one at work.
        chunk = await claim_records(rt, sync, job, chunk)
        if chunk.records:
            destination = await open_destination(rt, sync, job, times)
            assert destination is not None
            await claimed.confirm()
            await write_chunk(rt, ahead, chunk, destination)
            return True
    return False


def _days_ahead(job: Job) -> Iterator[Job]:
    """The job as it will be at each of its next days."""
    day = job.cursor_date
    for step in range(1, WRITE_TRIALS_MAX + 1):
        assert day is not None
        day = day_after(job.plan, day)
        if day is None:
            return
        yield replace(job, cursor=day.isoformat(), steps=job.steps + step)
