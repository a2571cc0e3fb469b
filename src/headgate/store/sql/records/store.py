"""Records in Headgate's own database: one row per key, written only if the content changed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, delete, null, select, union_all

from headgate.base.encoding import JsonObject, content_hash
from headgate.model.job import Job
from headgate.model.record import Record, RecordCounts, StoredRecord
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.port import SqlPort, reads, writes
from headgate.store.sql.engine.statements import ROWS_MAX, Insert
from headgate.store.sql.items import tombstones
from headgate.store.sql.records import high_water, pages
from headgate.store.sql.records import owners as record_owners
from headgate.store.sql.tables import records

_Key = tuple[str, str, str]

_NO_RECORDS = RecordCounts()


def _rewrite(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=records.primary_key.columns,
        set_={name: insert.excluded[name] for name in ("data", "hash", "updated_at")},
    )


_upsert = insert_many(records, records.columns.keys(), on_conflict=_rewrite)


def store(
    tx: Connection, chunks: Sequence[tuple[Job, ChunkWork | None]], at: datetime | None
) -> list[RecordCounts]:
    """Store each chunk's records, and delete those that are gone at its source.

    A record with unchanged content is not written again, and one with a tombstone not at all.
    """
    if not any(work is not None and (work.records or work.removed) for _, work in chunks):
        # Most chunks of many jobs bring nothing.
        return [_NO_RECORDS] * len(chunks)
    counts: list[Counter[str]] = [Counter() for _ in chunks]
    for job, work in chunks:
        if work is not None and work.removed:
            _remove(tx, job, work)
    incoming = list(_incoming(chunks))
    while batch := list(islice(incoming, ROWS_MAX)):
        del incoming[:ROWS_MAX]
        _store_some(tx, batch, counts, at)
    users = {
        (work.stored_as or job.sync, job.connection_id): job.user_id
        for (job, work), counted in zip(chunks, counts, strict=True)
        if work is not None and counted["inserted"]
    }
    record_owners.note(tx, users, at)
    return [RecordCounts(**each) for each in counts]


def _incoming(chunks: Sequence[tuple[Job, ChunkWork | None]]) -> Iterator[tuple[int, _Key, Record]]:
    for place, (job, work) in enumerate(chunks):
        if work is not None:
            # If a key comes twice in a chunk, the later record counts.
            for record in {record.key: record for record in work.records}.values():
                yield place, (work.stored_as or job.sync, job.connection_id, record.key), record


def _store_some(
    tx: Connection,
    batch: Sequence[tuple[int, _Key, Record]],
    counts: list[Counter[str]],
    at: datetime | None,
) -> None:
    stored_hashes, deleted = _hashes(tx, [key for _, key, _ in batch])
    rows: dict[_Key, dict[str, Any]] = {}
    for place, key, record in batch:
        if key in deleted:
            continue
        digest = content_hash(record.data)
        if key not in stored_hashes:
            counts[place]["inserted"] += 1
        elif stored_hashes[key] != digest:
            counts[place]["updated"] += 1
        else:
            counts[place]["unchanged"] += 1
            continue
        stored_hashes[key] = digest
        sync, connection_id, name = key
        rows[key] = {
            "sync": sync,
            "connection_id": connection_id,
            "key": name,
            "data": record.data,
            "hash": digest,
            "created_at": at,
            "updated_at": at,
        }
    _upsert.run(tx, list(rows.values()))


def _hashes(tx: Connection, keys: Sequence[_Key]) -> tuple[dict[_Key, str], set[_Key]]:
    """The content hashes of the stored records, and the keys of those with a tombstone."""
    groups: dict[tuple[str, str], list[str]] = {}
    for sync, connection_id, key in keys:
        groups.setdefault((sync, connection_id), []).append(key)
    stored: dict[_Key, str] = {}
    deleted: set[_Key] = set()
    for (sync, connection_id), names in groups.items():
        hashed = select(records.c.key, records.c.hash).where(*_are(sync, connection_id, names))
        gone = tombstones.keys([connection_id], sync, names).add_columns(null())
        for name, digest in tx.execute(union_all(hashed, gone)):
            if digest is None:
                deleted.add((sync, connection_id, name))
            else:
                stored[sync, connection_id, name] = digest
    return stored, deleted


def _are(sync: str, connection_id: str, keys: Sequence[str]) -> tuple[ColumnElement[bool], ...]:
    return (
        records.c.sync == sync,
        records.c.connection_id == connection_id,
        records.c.key.in_(keys),
    )


def _remove(tx: Connection, job: Job, work: ChunkWork) -> None:
    stored = {record.key for record in work.records}
    gone = [key for key in work.removed if key not in stored]
    for begin in range(0, len(gone), ROWS_MAX):
        forget_records(
            tx, [work.stored_as or job.sync], job.connection_id, gone[begin : begin + ROWS_MAX]
        )


def record_hashes(
    tx: Connection, sync: str, connection_id: str, keys: Sequence[str]
) -> dict[str, str]:
    """The content hashes of a connection's records under these keys."""
    return dict(_under_keys(tx, records.c.hash, sync, connection_id, keys))


def record_data(
    tx: Connection, sync: str, connection_id: str, keys: Sequence[str]
) -> dict[str, JsonObject]:
    """The data of a connection's records under these keys."""
    return dict(_under_keys(tx, records.c.data, sync, connection_id, keys))


def _under_keys(
    tx: Connection, wanted: Column[Any], sync: str, connection_id: str, keys: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """One column of a connection's records under these keys, with the keys."""
    for begin in range(0, len(keys), ROWS_MAX):
        some = keys[begin : begin + ROWS_MAX]
        query = select(records.c.key, wanted).where(*_are(sync, connection_id, some))
        yield from tx.execute(query)


def find_by_keys(
    tx: Connection, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
) -> list[StoredRecord]:
    """Records of these syncs and connections under these keys."""
    query = select(
        records.c.sync, records.c.connection_id, records.c.key, records.c.data, records.c.updated_at
    ).where(
        records.c.sync.in_(syncs),
        records.c.connection_id.in_(connection_ids),
        records.c.key.in_(keys),
    )
    return [StoredRecord(**row) for row in tx.execute(query).mappings()]


def forget_records(
    tx: Connection, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
) -> int:
    """Delete a connection's records under these keys; returns how many there were."""
    statement = delete(records).where(
        records.c.sync.in_(syncs),
        records.c.connection_id == connection_id,
        records.c.key.in_(keys),
    )
    return tx.execute(statement).rowcount


class SqlRecords(SqlPort):
    """Records in SQLite or Postgres."""

    find_records = reads(pages.find_records)
    list_under_key = reads(pages.list_under_key)
    list_records = reads(pages.list_records)
    find_by_keys = reads(find_by_keys)
    record_hashes = reads(record_hashes)
    record_data = reads(record_data)
    high_water = reads(high_water.find_mark)
    forget_records = writes(forget_records)
