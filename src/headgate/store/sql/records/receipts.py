"""Receipts: what a destination has made of each record, and which job is about to send it.

A job claims records before it sends them, so that two jobs never send the same one. A claim names
the chunk of its job and is valid while the job works on that chunk; nobody has to release it. A
record that was refused stays so while it is claimed again, until there is another answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select, update

from headgate.model.job import Job
from headgate.model.lease import NO_CLAIM
from headgate.model.states import JOB, ReceiptState
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads, writes_timed
from headgate.store.sql.engine.statements import ROWS_MAX, Insert
from headgate.store.sql.tables import in_states, jobs, receipts

#: A chunk of a job: its id, the token of its claim, and its steps.
_ChunkId = tuple[str, int, int]

_CLAIM = ("job_id", "token", "step", "updated_at")
_NEWS = ("state", *_CLAIM)


def _rewrite(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=receipts.primary_key.columns,
        set_={name: insert.excluded[name] for name in _NEWS},
    )


_add = insert_many(
    receipts, receipts.columns.keys(), lambda insert: insert.on_conflict_do_nothing()
)
_upsert = insert_many(receipts, receipts.columns.keys(), on_conflict=_rewrite)


def claim_records(
    tx: Connection, now: Moment, job: Job, stored_as: str, keys: Sequence[str]
) -> Mapping[str, ReceiptState]:
    """Claim records for the job's present chunk; returns the states of those that it did not get.

    A record is TAKEN if the destination has it, and CLAIMED if another job is sending it. If any is
    claimed, the job has to wait, and what it got by then is void as soon as it does.
    """
    if _chunk_id(job) not in _chunks_at_work(tx, [job.id]):
        # The job was claimed again meanwhile; whoever has it now sends the records.
        return dict.fromkeys(keys, ReceiptState.CLAIMED)
    at = now.read(tx)
    # In order, so that two jobs that want the same records do not wait for each other.
    wanted = sorted(set(keys))
    rows = [_row(job, stored_as, key, ReceiptState.CLAIMED, at, job.token) for key in wanted]
    for batch in _batches(rows):
        _add.run(tx, batch)
    others = {
        key: state
        for key, state in _states(tx, job, stored_as, wanted, lock=True).items()
        if state is not ReceiptState.REFUSED
    }
    if ReceiptState.CLAIMED not in others.values():
        free = [key for key in wanted if key not in others]
        values = {name: rows[0][name] for name in _CLAIM} if rows else {}
        for names in _batches(free):
            tx.execute(update(receipts).where(*_under(job, stored_as, names)).values(values))
    return others


def find_states(
    tx: Connection, job: Job, stored_as: str, keys: Sequence[str]
) -> Mapping[str, ReceiptState]:
    """The states of the records that the destination has, has refused, or is being sent."""
    return _states(tx, job, stored_as, keys)


def store(
    tx: Connection, chunks: Sequence[tuple[Job, ChunkWork | None]], at: datetime | None
) -> None:
    """Store what the destination has made of each chunk's records."""
    rows = [
        _row(job, work.stored_as or job.sync, receipt.key, receipt.state, at)
        for job, work in chunks
        if work is not None
        for receipt in {each.key: each for each in work.receipts}.values()
    ]
    for batch in _batches(rows):
        _upsert.run(tx, batch)


def _states(
    tx: Connection, job: Job, stored_as: str, keys: Sequence[str], *, lock: bool = False
) -> dict[str, ReceiptState]:
    """The states of these records. A claim counts if it is another job's, and that is at work."""
    found: list[Row[Any]] = []
    columns = (receipts.c.key, *(receipts.c[name] for name in _NEWS))
    for names in _batches(keys):
        query = select(*columns).where(*_under(job, stored_as, names)).order_by(receipts.c.key)
        found += tx.execute(query.with_for_update() if lock else query)
    open_rows = [row for row in found if row.state is not ReceiptState.TAKEN]
    at_work = _chunks_at_work(tx, [row.job_id for row in open_rows]) - {_chunk_id(job)}
    states = {row.key: row.state for row in found if row.state is not ReceiptState.CLAIMED}
    for row in open_rows:
        if (row.job_id, row.token, row.step) in at_work:
            states[row.key] = ReceiptState.CLAIMED
    return states


def _chunks_at_work(tx: Connection, job_ids: Sequence[str]) -> set[_ChunkId]:
    """The chunks that workers have claimed now, of these jobs."""
    if not job_ids:
        return set()
    query = select(jobs.c.id, jobs.c.token, jobs.c.steps).where(
        jobs.c.id.in_(sorted(set(job_ids))), in_states(jobs, *JOB.claimed)
    )
    return {(row.id, row.token, row.steps) for row in tx.execute(query)}


def _chunk_id(job: Job) -> _ChunkId:
    return job.id, job.token, job.steps


def _under(job: Job, stored_as: str, keys: Sequence[str]) -> Sequence[ColumnElement[bool]]:
    return (
        receipts.c.sync == stored_as,
        receipts.c.connection_id == job.connection_id,
        receipts.c.destination_connection_id == (job.destination_connection_id or ""),
        receipts.c.key.in_(keys),
    )


def _row(
    job: Job,
    stored_as: str,
    key: str,
    state: ReceiptState,
    at: datetime | None,
    token: int = NO_CLAIM,
) -> dict[str, Any]:
    return {
        "sync": stored_as,
        "connection_id": job.connection_id,
        "destination_connection_id": job.destination_connection_id or "",
        "key": key,
        "state": state,
        "job_id": job.id,
        "token": token,
        "step": job.steps,
        "updated_at": at,
    }


def _batches(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (rows[begin : begin + ROWS_MAX] for begin in range(0, len(rows), ROWS_MAX))


class SqlReceipts(SqlPort):
    """Receipts in SQLite or Postgres."""

    find_states = reads(find_states)
    claim_records = writes_timed(claim_records)
