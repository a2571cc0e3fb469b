"""Settling of jobs: writes a chunk's work, its events and the job's row in one transaction.

The guarded write is in `leases.py`, and the meaning of a change is in `model/change.py`.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace
from sqlalchemy import Connection, select

from headgate.base.errors import ActiveJobExists, Conflict, UnsendableMessage
from headgate.model.change import JOBS, JobChange, LockedJob, count
from headgate.model.job import Job
from headgate.model.record import RecordCounts
from headgate.model.states import JobEdge, JobState
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.records.table import TableBatch
from headgate.store.sql.engine.callers import caller_transaction
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.jobs import events, queue
from headgate.store.sql.leases.table import LeaseTable, RowUpdate
from headgate.store.sql.outbox import writer as outbox_writer
from headgate.store.sql.people import notifications
from headgate.store.sql.records import coverage, high_water, receipts
from headgate.store.sql.records import store as records
from headgate.store.sql.tables import ACTIVE, jobs

Settlement = tuple[JobChange, ChunkWork | None]
_RowUpdate = RowUpdate[Job, JobChange, ChunkWork]

TABLE = LeaseTable[Job, JobChange, LockedJob, ChunkWork](JOBS, jobs)


def settle(
    tx: Connection,
    now: Moment,
    batch: Sequence[Settlement],
    *,
    syncs: Sequence[str],
    composer: NotificationComposer | None = None,
) -> list[Job | None]:
    """Apply the valid changes and store their work; the result of a change that lost is None.

    People are told by `composer`; None: nobody is.
    """
    return TABLE.settle(tx, now, batch, partial(_store, syncs=syncs, composer=composer))


def _store(
    tx: Connection,
    settled: list[_RowUpdate],
    *,
    syncs: Sequence[str],
    composer: NotificationComposer | None,
) -> None:
    for each in settled:
        _refuse_second_active(tx, each.change)
    at = settled[0].now
    work = [(each.row, each.payload) for each in settled]
    for each, counts in zip(settled, records.store(tx, work, at), strict=True):
        for added in (counts, _store_in_table(tx, each)):
            if added:
                each.row = replace(each.row, summary=count(each.row.summary, **added.by_name()))
    _join_queue(tx, settled, syncs)
    TABLE.write(tx, settled)
    coverage.store(tx, work, at)
    receipts.store(tx, work, at)
    high_water.store(tx, [each.row for each in settled], at)
    _enqueue(tx, settled)
    if composer is not None:
        notifications.tell(tx, settled, composer)
    events.append(tx, [event for each in settled for event in _events_of(each)])


def _store_in_table(tx: Connection, each: _RowUpdate) -> RecordCounts:
    """Let the system's own table take its records."""
    job, work = each.row, each.payload
    if work is None or work.table is None or not work.table_records:
        return RecordCounts()
    batch = TableBatch(
        user_id=job.user_id,
        connection_id=job.connection_id,
        sync=job.sync,
        job_id=job.id,
        # If a key comes twice in a chunk, the later record counts.
        records=tuple({record.key: record for record in work.table_records}.values()),
        at=each.now,
    )
    return work.table.store(tx, batch)


def _enqueue(tx: Connection, settled: Sequence[_RowUpdate]) -> None:
    for each in settled:
        for place, new in enumerate(() if each.payload is None else each.payload.messages):
            try:
                outbox_writer.write(caller_transaction(tx), new, each.now)
            except Conflict as error:
                raise UnsendableMessage(f"messages[{place}].{error}") from None


def _events_of(each: _RowUpdate) -> Iterator[events.NewEvent]:
    """The source's events of the chunk, then the event of the change."""
    for event in () if each.payload is None else each.payload.events:
        yield each.row.id, each.now, event.kind, event.data
    yield each.row.id, each.now, each.change.event, each.change.data


def _join_queue(tx: Connection, settled: Sequence[_RowUpdate], syncs: Sequence[str]) -> None:
    """Give turns to jobs that are due now; jobs of other applications stay asleep."""
    joining = [each for each in settled if _is_due(each) and each.row.sync in syncs]
    turns = queue.next_turns(tx, [(each.row.lane, each.row.user_id) for each in joining], syncs)
    for each, turn in zip(joining, turns, strict=True):
        each.row = replace(each.row, turn=turn)


def _is_due(each: _RowUpdate) -> bool:
    job = each.row
    return job.state is JobState.PENDING and job.wake_at is not None and job.wake_at <= each.now


def active_job_of(tx: Connection, sync: str, connection_id: str) -> str | None:
    """The id of the sync's active job for the connection."""
    query = select(jobs.c.id).where(
        ACTIVE, jobs.c.sync == sync, jobs.c.connection_id == connection_id
    )
    return tx.execute(query).scalar_one_or_none()


def _refuse_second_active(tx: Connection, change: JobChange) -> None:
    """Refuse to retry a failed job beside a newer active one.

    The unique index would also refuse it; this check names the job that is in the way.
    """
    if change.edge.name is JobEdge.RETRY:
        other = active_job_of(tx, change.after.sync, change.after.connection_id)
        if other is not None:
            raise ActiveJobExists(other)
