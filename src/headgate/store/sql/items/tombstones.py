"""Tombstones of deleted items and records, so that a read under way does not bring them back.

A worker may have read a thing just before its provider deleted it. While the tombstone is there,
what the worker brings is neither registered nor stored. A deletion also waits for the transactions
that looked for a tombstone before it was put, because it could not see what they write.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select

from headgate.model.states import JOB
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.items.retention import TOMBSTONES_KEPT
from headgate.store.sql.tables import in_states, jobs, tombstones

#: Stands for the name that records are stored under; no record has an empty one.
ITEMS = ""


def put(tx: Connection, now: Moment, connection_id: str, things: Iterable[tuple[str, str]]) -> None:
    """Put a tombstone for each of a connection's things; the last deletion of a thing counts."""
    rows = [
        {"connection_id": connection_id, "stored_as": stored_as, "key": key, "deleted_at": now.at()}
        for stored_as, key in things
    ]
    if rows:
        insert = insert_into(tx.dialect, tombstones).values(rows)
        again = insert.on_conflict_do_update(
            index_elements=tombstones.primary_key.columns,
            set_={"deleted_at": insert.excluded.deleted_at},
        )
        tx.execute(again)


def keys(connection_ids: Iterable[str], stored_as: str, among: Sequence[str]) -> Select[Any]:
    """The query for the deleted keys among these."""
    return select(tombstones.c.key).where(
        tombstones.c.connection_id.in_(set(connection_ids)),
        tombstones.c.stored_as == stored_as,
        tombstones.c.key.in_(among),
    )


def keep_deletions_out(tx: Connection, connection_ids: Iterable[str]) -> None:
    """Let no deletion for these connections begin before the end of the transaction."""
    if tx.dialect.name == "postgresql":
        # In order, so that transactions never deadlock.
        for lock in sorted(map(_lock_of, connection_ids)):
            tx.execute(select(func.pg_advisory_xact_lock_shared(lock)))


def wait_for_writers(tx: Connection, connection_id: str, syncs: Sequence[str]) -> None:
    """Wait until nobody registers items, or commits a chunk of these syncs, for the connection.

    SQLite has one writer at a time, so there nobody does.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(select(func.pg_advisory_xact_lock(_lock_of(connection_id))))
        # Only claimed jobs commit chunks. Others are not locked: workers skip locked jobs.
        claimed = select(jobs.c.id).where(
            in_states(jobs, *JOB.claimed),
            jobs.c.sync.in_(syncs),
            jobs.c.connection_id == connection_id,
        )
        tx.execute(claimed.order_by(jobs.c.id).with_for_update())


def forget(tx: Connection, connection_id: str) -> None:
    """Delete the tombstones of a removed connection: nothing is registered for it any more."""
    tx.execute(delete(tombstones).where(tombstones.c.connection_id == connection_id))


def prune(tx: Connection, now: Moment) -> None:
    """Delete the tombstones that have served their time."""
    tx.execute(delete(tombstones).where(tombstones.c.deleted_at < now.at(-TOMBSTONES_KEPT)))


def _lock_of(connection_id: str) -> int:
    """The number of the connection's advisory lock."""
    digest = blake2b(connection_id.encode(), digest_size=8, person=b"headgate").digest()
    return int.from_bytes(digest, signed=True)
