"""Building of the change that commits a chunk. It is pure, so that it is easy to test."""

from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from headgate.base.encoding import Json
from headgate.model import change
from headgate.model.change import ChunkResult, JobChange
from headgate.model.job import Job, Progress, Summary
from headgate.model.lease import AT_ONCE
from headgate.model.pace import Effort
from headgate.model.record import Coverage, Record
from headgate.model.states import DayStatus
from headgate.policy.calendar import day_after, history_progress
from headgate.policy.pace import add_chunk
from headgate.ports.connector import Chunk, WriteResult
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.outbox import NewMessage
from headgate.ports.records.table import RecordTable

#: The longest text about the records that a destination refused.
REFUSED_LENGTH_MAX = 500


def commit_chunk(
    job: Job,
    chunk: Chunk,
    written: WriteResult | None = None,
    *,
    slice_over: bool,
    messages: Sequence[NewMessage] = (),
    table: RecordTable | None = None,
    effort: Effort | None = None,
) -> tuple[JobChange, ChunkWork]:
    """The change of the job after `chunk`, and the work to store with it.

    `written` is the destination's result; without a destination the records are stored here, in
    the system's own `table` if there is one. `messages` are the chunk's, ready to be enqueued.
    `effort` is what the chunk took.
    """
    day = job.cursor_date
    summary = _add_counts(job.summary, chunk, written)
    coverage: Coverage | None = None
    if day is None:
        result, done = _after_page(job, chunk, summary)
    elif chunk.error is not None:
        # The day is not done: it is read again, and its records are counted then.
        partial = _work(chunk, chunk.records, table)
        return change.cut_short(job, _unmoved_result(job), {"day": day.isoformat()}), partial
    else:
        result, done, coverage = _after_day(job, chunk, written, summary, day)
    # A chunk without records did not ask the destination, so it does not test it.
    provider_asked = (
        job.provider != job.destination or job.provider == job.source or bool(chunk.records)
    )
    result = msgspec.structs.replace(
        result,
        answered=provider_asked or done,
        high_water=_high_water(job, chunk, summary),
        summary=_add_effort(job, result, effort),
    )
    data: dict[str, object] = {"records": len(chunk.records) + chunk.delivered_before}
    if day is not None:
        data["day"] = day.isoformat()
    if written is not None and written.refused:
        data["refused"] = len(written.refused)
    kept_here = chunk.records if written is None else written.receipts
    work = _work(chunk, kept_here, table, coverage=coverage, messages=messages)
    if done:
        return change.succeed(job, result, data), work
    if chunk.error is not None:
        return change.cut_short(job, result, data), work
    if day is None and chunk.wait is not None and chunk.wait > AT_ONCE:
        return change.rest(job, result, data, after=chunk.wait), work
    return (change.rest if slice_over else change.advance)(job, result, data), work


def succeed_without_work(job: Job) -> JobChange:
    """The change of a job whose days are all held already."""
    result = ChunkResult(cursor=None, progress=history_progress((), None), summary=job.summary)
    return change.succeed(job, result, {"records": 0})


def give_up_day(job: Job, error: str) -> tuple[JobChange, ChunkWork]:
    """The change that records the present day as a gap, and the work to store with it."""
    day = job.cursor_date
    assert day is not None
    summary = change.count(job.summary, days_failed=1, errors=1)
    result, last = _next_day(job, day, summary)
    coverage = Coverage(day=day, status=DayStatus.FAILED, error=error)
    return change.skip(job, result, error=error, day=day, last=last), ChunkWork(coverage=coverage)


def _add_counts(summary: Summary, chunk: Chunk, written: WriteResult | None) -> Summary:
    found, before = len(chunk.records), chunk.delivered_before
    summary = msgspec.structs.replace(summary, counts=_sum_counts(summary.counts, chunk.counts))
    summary = change.count(summary, chunks=1, records=found + before, delivered_before=before)
    if written is None:
        return summary
    refused = len(written.refused)
    return change.count(summary, delivered=found - refused, refused=refused)


def _add_effort(job: Job, result: ChunkResult, effort: Effort | None) -> Summary:
    known, counted = job.progress.items, result.progress.items
    if effort is None or (counted and not known):
        # Items that are counted for the first time may have been done by anybody before.
        return result.summary
    units = max(0, result.progress.done - job.progress.done)
    # After a failure or a deferral the job has slept, and did not wait for a worker.
    followed = not (job.attempts or job.deferrals or job.crashes or job.pauses)
    pace = add_chunk(job.summary.pace, effort, units=units, followed=followed)
    return msgspec.structs.replace(result.summary, pace=pace)


def _high_water(job: Job, chunk: Chunk, summary: Summary) -> Json:
    """The job's mark after the chunk; it does not move past data that has to be read again."""
    failed = summary.refused or summary.days_failed
    return job.high_water if failed or chunk.high_water is None else chunk.high_water


def _sum_counts(counts: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    return {**counts, **{name: counts.get(name, 0) + count for name, count in more.items()}}


def _after_day(
    job: Job, chunk: Chunk, written: WriteResult | None, summary: Summary, day: date
) -> tuple[ChunkResult, bool, Coverage]:
    records = len(chunk.records) + len(chunk.kept) + chunk.delivered_before
    has_data = records > 0
    summary = change.count(summary, days_held=int(has_data), days_empty=int(not has_data))
    result, last = _next_day(job, day, summary)
    coverage = Coverage(
        day=day,
        status=DayStatus.HELD if has_data else DayStatus.EMPTY,
        records=records,
        error=_refusals(written),
    )
    return result, last, coverage


def _refusals(written: WriteResult | None) -> str | None:
    if written is None or not written.refused:
        return None
    reasons = "; ".join(each.reason for each in written.refused)
    return (
        reasons if len(reasons) <= REFUSED_LENGTH_MAX else reasons[: REFUSED_LENGTH_MAX - 1] + "…"
    )


def _next_day(job: Job, day: date, summary: Summary) -> tuple[ChunkResult, bool]:
    plan = job.plan
    next_day = day_after(plan, day)
    result = ChunkResult(
        # A finished job keeps its last day as the cursor, which shows how far the history goes.
        cursor=(next_day or day).isoformat(),
        progress=history_progress(plan, next_day),
        summary=summary,
        high_water=job.high_water,
    )
    return result, next_day is None


def _unmoved_result(job: Job) -> ChunkResult:
    """The result of a chunk that leaves the job where it is."""
    return ChunkResult(
        cursor=job.cursor, progress=job.progress, summary=job.summary, high_water=job.high_water
    )


def _work(
    chunk: Chunk,
    records: Sequence[Record],
    table: RecordTable | None,
    *,
    coverage: Coverage | None = None,
    messages: Sequence[NewMessage] = (),
) -> ChunkWork:
    """What the chunk brings to be stored; what it `kept` is for Headgate's own table."""
    return ChunkWork(
        records=(*records, *chunk.kept) if table is None else tuple(chunk.kept),
        table=table,
        table_records=() if table is None else tuple(records),
        removed=chunk.removed,
        coverage=coverage,
        events=chunk.events,
        messages=messages,
    )


def _after_page(job: Job, chunk: Chunk, summary: Summary) -> tuple[ChunkResult, bool]:
    done = chunk.cursor is None and chunk.wait is None and chunk.error is None
    progress = chunk.progress or Progress(done=summary.records)
    if done:
        done_now = max(progress.done, progress.total or 0)
        progress = msgspec.structs.replace(progress, done=done_now, at=None)
    # A finished job keeps its last cursor.
    cursor = job.cursor if done else chunk.cursor
    return ChunkResult(cursor=cursor, progress=progress, summary=summary), done
