"""The verdict at the end of a run: LOSS, LIVE, ONCE and EARLY, from what is stored and accepted."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from sqlalchemy import Connection

from headgate.base.errors import NotFound
from headgate.model.job import EventKind, Job, Mode
from headgate.model.states import JOB, DayStatus, JobState
from headgate.policy.calendar import days_in
from headgate.simulation.deployment import START
from headgate.simulation.provider import PAGES, EarlyRequest, RequestLedger, records_of
from headgate.store.sql import coverage, events, records, settle

_EVENTS_MAX = 100_000
#: A worker that was declared lost may go on with its chunk for so long.
ZOMBIE = timedelta(seconds=90)
#: Events that each stand for one committed chunk. A cancel or a pause that met a chunk on its way
#: stands for it too, and says so.
_CHUNK_EVENTS = (EventKind.CHUNK, EventKind.SUCCEEDED, EventKind.DAY_FAILED)


def judge(tx: Connection, acknowledged: Mapping[str, Job], ledger: RequestLedger) -> list[str]:
    """What is wrong with the end of the jobs that read days and pages."""
    found = [f"ONCE: the ledger was sent two contents under {key}" for key in ledger.changed]
    for job_id in sorted(acknowledged):
        found += _judge_job(tx, job_id, ledger)
    return found


def judge_ends(tx: Connection, acknowledged: Mapping[str, Job]) -> Iterable[str]:
    """Jobs that are gone, that have not ended, or whose chunks were not committed once."""
    for job_id in sorted(acknowledged):
        yield from _judge_job(tx, job_id, None)


def judge_arrivals(tx: Connection, early: Iterable[EarlyRequest]) -> Iterable[str]:
    """Requests that came too early, though the job knew that it had to wait.

    It did not where its worker died before it could say so, where people made it go on, or where
    a worker that had lost the job was the one who was refused.
    """
    for request in early:
        since, until = (START + timedelta(seconds=at) for at in request[1:])
        told = events.of_job(tx, request.job_id, after=0, limit=_EVENTS_MAX)
        between = {event.kind for event in told if since <= event.at <= until}
        lost = any(
            event.kind == EventKind.RESCUED and since - ZOMBIE <= event.at <= since
            for event in told
        )
        if between == {EventKind.DEFERRED} and not lost:
            yield f"EARLY: {request.job_id} asked at {until:%H:%M:%S}, refused at {since:%H:%M:%S}"


def _judge_job(tx: Connection, job_id: str, ledger: RequestLedger | None) -> Iterable[str]:
    try:
        row = settle.TABLE.get(tx, job_id)
    except NotFound:
        return [f"LOSS: {job_id} was acknowledged and is gone"]
    if row.state not in JOB.terminal:
        return [f"LIVE: {job_id} is still {row.state.value} ({row.reason.value})"]
    found = [*_chunks_once(tx, row)]
    if row.state is JobState.SUCCESS and ledger is not None:
        found += _complete(tx, row, ledger)
    return found


def _chunks_once(tx: Connection, job: Job) -> Iterable[str]:
    """Every committed chunk told once: steps and events agree."""
    told = 0
    for event in events.of_job(tx, job.id, after=0, limit=_EVENTS_MAX):
        kept = event.data.get("after") in _CHUNK_EVENTS
        told += event.kind in _CHUNK_EVENTS or kept
    if told != job.steps:
        yield f"ONCE: {job.id} committed {job.steps} chunks and told of {told}"


def _complete(tx: Connection, job: Job, ledger: RequestLedger) -> Iterable[str]:
    if job.mode is Mode.HISTORY:
        yield from _days_complete(tx, job)
    elif job.steps != PAGES:
        yield f"LOSS: {job.id} read {job.steps} of {PAGES} pages"
    if job.sync == "sent":
        yield from _sent_once(job, ledger)
    else:
        yield from _kept(tx, job)


def _days(job: Job) -> list[date]:
    assert job.start_date is not None and job.end_date is not None
    count = (job.end_date - job.start_date).days + 1
    return [job.start_date + timedelta(days=n) for n in range(count)]


def _days_complete(tx: Connection, job: Job) -> Iterable[str]:
    days = _days(job)
    rows = coverage.of_days(tx, job.sync, job.connection_id, days[0], days[-1])
    covered = {row.day for row in rows}
    for day in days:
        if day not in covered:
            yield f"LOSS: {job.id} is done, but {day} is not covered"
    # A job that finds every day held already ends in one step.
    planned_days = max(1, days_in(job.plan))
    if job.steps != planned_days:
        yield f"ONCE: {job.id} has {planned_days} days to read and committed {job.steps} chunks"


def _sent_once(job: Job, ledger: RequestLedger) -> Iterable[str]:
    """The ledger accepted the chunks that were committed, under their keys, and no others."""
    prefix = f"{job.id}:"
    accepted = {int(key.removeprefix(prefix)) for key in ledger.accepted if key.startswith(prefix)}
    if beyond := {step for step in accepted if step >= job.steps}:
        yield f"ONCE: {job.id} sent chunks that it never committed: {sorted(beyond)}"
    sent = sum(len(ledger.accepted[f"{prefix}{step}"].records) for step in accepted)
    if sent < job.summary.records:
        yield f"LOSS: {job.id} counts {job.summary.records} records, the ledger accepted {sent}"


def _kept(tx: Connection, job: Job) -> Iterable[str]:
    """What a held day or page brought is in the database, as the provider has it."""
    held = records.of_connection(tx, job.sync, job.connection_id, after=None, limit=_EVENTS_MAX)
    there = {record.key: record.data for record in held}
    if job.mode is not Mode.HISTORY:
        missing = [f"page {page}" for page in range(PAGES) if f"page {page}" not in there]
        return [f"LOSS: {job.id} is done without {key}" for key in missing]
    days = _days(job)
    rows = coverage.of_days(tx, job.sync, job.connection_id, days[0], days[-1])
    return [
        f"LOSS: {job.id} says {row.day} is held, but {record.key} is not there"
        for row in rows
        if row.status is DayStatus.HELD
        for record in records_of(job.connection_id, row.day)
        if there.get(record.key) != record.data
    ]
