"""The invariants at the end of a run: LOSS, LIVE, ONCE, ZOMBIE and EARLY, by the database."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from headgate.base.errors import NotFound
from headgate.model.job import EventKind, Job, Mode
from headgate.model.states import JOB, DayStatus, JobState
from headgate.policy.calendar import days_in
from headgate.store.sql.jobs import events, settle
from headgate.store.sql.records import coverage, pages
from tests.simulation.deployment import START
from tests.simulation.provider import (
    PAGES,
    TICK_S,
    EarlyRequest,
    RequestLedger,
    records_of,
)

_EVENTS_MAX = 100_000
#: How long a worker that was declared lost may go on with its chunk.
ZOMBIE = timedelta(seconds=90)
#: Each of these events is one committed chunk. A cancel or a pause that came during a chunk counts
#: as its event too, and says so.
_CHUNK_EVENTS = (EventKind.CHUNK, EventKind.SUCCEEDED, EventKind.DAY_FAILED)


def judge(tx: Connection, acknowledged: Mapping[str, Job], ledger: RequestLedger) -> list[str]:
    """Return what is wrong at the end with the jobs that read days and pages."""
    found = [f"ONCE: the ledger was sent two contents under {key}" for key in ledger.changed]
    for job_id in sorted(acknowledged):
        found += _judge_job(tx, job_id, ledger)
    return found


def judge_ends(tx: Connection, acknowledged: Mapping[str, Job]) -> Iterable[str]:
    """Return the jobs that are gone, have not ended, or did not commit each chunk once."""
    for job_id in sorted(acknowledged):
        yield from _judge_job(tx, job_id, None)


def judge_arrivals(tx: Connection, early: Iterable[EarlyRequest]) -> Iterable[str]:
    """Return requests that came too early, although the job knew that it had to wait.

    The job did not know if its worker died before it could store the wait, if people resumed it,
    or if the refused worker had already lost the job.
    """
    for request in early:
        since, until = (START + timedelta(seconds=at) for at in request[1:])
        history = events.list_events(tx, request.job_id, after=0, limit=_EVENTS_MAX)
        between = {event.kind for event in history if since <= event.at <= until}
        lost = any(
            event.kind == EventKind.RESCUED and since - ZOMBIE <= event.at <= since
            for event in history
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
    if ledger is not None:
        found += _no_zombie_writes(tx, row, ledger)
    if row.state is JobState.SUCCESS and ledger is not None:
        found += _complete(tx, row, ledger)
    return found


def _chunks_once(tx: Connection, job: Job) -> Iterable[str]:
    """Check that each committed chunk has one event."""
    recorded = len(_commit_times(tx, job))
    if recorded != job.steps:
        yield f"ONCE: {job.id} committed {job.steps} chunks and has events of {recorded}"


def _commit_times(tx: Connection, job: Job) -> list[datetime]:
    """When each of the job's chunks was committed, in their order."""
    return [
        event.at
        for event in events.list_events(tx, job.id, after=0, limit=_EVENTS_MAX)
        if event.kind in _CHUNK_EVENTS or event.data.get("after") in _CHUNK_EVENTS
    ]


def _no_zombie_writes(tx: Connection, job: Job, ledger: RequestLedger) -> Iterable[str]:
    """Check that no chunk was sent after it was committed: only a worker that lost it would."""
    for step, committed in enumerate(_commit_times(tx, job)):
        sent_s = ledger.sent_s.get(f"{job.id}:{step}", 0.0)
        if START + timedelta(seconds=sent_s - TICK_S) > committed:
            yield f"ZOMBIE: {job.id} sent chunk {step} again, {committed:%H:%M:%S} being its commit"


def _complete(tx: Connection, job: Job, ledger: RequestLedger) -> Iterable[str]:
    if job.mode is Mode.HISTORY:
        yield from _days_complete(tx, job)
    elif job.steps != PAGES:
        yield f"LOSS: {job.id} read {job.steps} of {PAGES} pages"
    if job.sync == "sent":
        yield from _sent_once(job, ledger)
    else:
        yield from _stored(tx, job)


def _days(job: Job) -> list[date]:
    assert job.start_date is not None and job.end_date is not None
    count = (job.end_date - job.start_date).days + 1
    return [job.start_date + timedelta(days=n) for n in range(count)]


def _days_complete(tx: Connection, job: Job) -> Iterable[str]:
    days = _days(job)
    rows = coverage.list_days(tx, job.sync, job.connection_id, days[0], days[-1])
    covered = {row.day for row in rows}
    for day in days:
        if day not in covered:
            yield f"LOSS: {job.id} is done, but {day} is not covered"
    # A job whose days are all imported already ends in one step.
    planned = max(1, days_in(job.plan))
    if job.steps != planned:
        yield f"ONCE: {job.id} has {planned} days to read and committed {job.steps} chunks"


def _sent_once(job: Job, ledger: RequestLedger) -> Iterable[str]:
    """Check that the ledger accepted the committed chunks, under their keys, and no others."""
    prefix = f"{job.id}:"
    accepted = {int(key.removeprefix(prefix)) for key in ledger.accepted if key.startswith(prefix)}
    if beyond := {step for step in accepted if step >= job.steps}:
        yield f"ONCE: {job.id} sent chunks that it never committed: {sorted(beyond)}"
    sent = sum(len(ledger.accepted[f"{prefix}{step}"].records) for step in accepted)
    if sent < job.summary.records:
        yield f"LOSS: {job.id} counts {job.summary.records} records, the ledger accepted {sent}"


def _stored(tx: Connection, job: Job) -> Iterable[str]:
    """Check that the records of imported days and pages are stored as the provider has them."""
    found = pages.list_records(tx, job.sync, job.connection_id, after=None, limit=_EVENTS_MAX)
    stored = {record.key: record.data for record in found}
    if job.mode is not Mode.HISTORY:
        missing = [f"page {page}" for page in range(PAGES) if f"page {page}" not in stored]
        return [f"LOSS: {job.id} is done without {key}" for key in missing]
    days = _days(job)
    rows = coverage.list_days(tx, job.sync, job.connection_id, days[0], days[-1])
    return [
        f"LOSS: {job.id} says {row.day} is held, but {record.key} is not there"
        for row in rows
        if row.status is DayStatus.HELD
        for record in records_of(job.connection_id, row.day)
        if stored.get(record.key) != record.data
    ]
