"""From a chunk to the change that commits it: pure, so that what is written is easy to test."""

from datetime import date

from headgate.model import change
from headgate.model.change import Change, Tally
from headgate.model.job import Job, Progress, Summary
from headgate.model.record import Coverage
from headgate.model.states import DayStatus
from headgate.policy.calendar import day_after, history_progress
from headgate.ports.connector import Chunk
from headgate.ports.store import Work


def chunk_done(
    job: Job, chunk: Chunk, *, own_records: bool, slice_over: bool
) -> tuple[Change, Work]:
    """What becomes of the job after `chunk`, and what is stored with it.

    `own_records`: the records go into Headgate's database, not to a destination elsewhere.
    """
    day = job.cursor_date
    tally, done, coverage = _after_page(job, chunk) if day is None else _after_day(job, chunk, day)
    data: dict[str, object] = {"records": len(chunk.records)}
    if day is not None:
        data["day"] = day.isoformat()
    work = Work(records=chunk.records if own_records else (), coverage=coverage)
    if done:
        return change.succeed(job, tally, data), work
    return (change.rest if slice_over else change.advance)(job, tally, data), work


def day_given_up(job: Job, error: str) -> tuple[Change, Work]:
    """The present day becomes a gap, and the job goes on."""
    day = job.cursor_date
    assert day is not None
    summary = change.count(job.summary, days_failed=1, errors=1)
    tally, last = _next_day(job, day, summary)
    coverage = Coverage(day=day, status=DayStatus.FAILED, error=error)
    return change.skip(job, tally, error=error, day=day, last=last), Work(coverage=coverage)


def _after_day(job: Job, chunk: Chunk, day: date) -> tuple[Tally, bool, Coverage]:
    held = len(chunk.records) > 0
    summary = change.count(
        job.summary,
        chunks=1,
        records=len(chunk.records),
        days_held=int(held),
        days_empty=int(not held),
    )
    status = DayStatus.HELD if held else DayStatus.EMPTY
    tally, last = _next_day(job, day, summary)
    return tally, last, Coverage(day=day, status=status, records=len(chunk.records))


def _next_day(job: Job, day: date, summary: Summary) -> tuple[Tally, bool]:
    assert job.start_date is not None and job.end_date is not None
    next_day = day_after(job, day)
    tally = Tally(
        # The last day stays the cursor of a finished job: it says how far the history goes.
        cursor=(next_day or day).isoformat(),
        progress=history_progress(job.start_date, job.end_date, next_day),
        summary=summary,
    )
    return tally, next_day is None


def _after_page(job: Job, chunk: Chunk) -> tuple[Tally, bool, None]:
    summary = change.count(job.summary, chunks=1, records=len(chunk.records))
    done = chunk.cursor is None
    progress = chunk.progress or Progress(done=summary.records)
    if done:
        progress = Progress(done=max(progress.done, progress.total or 0), total=progress.total)
    # The last cursor is kept: the next incremental run begins there.
    cursor = job.cursor if done else chunk.cursor
    return Tally(cursor=cursor, progress=progress, summary=summary), done, None
