"""Whose the stored records are: one row for each sync and connection that has stored a record."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Select, select

from headgate.ports.records.store import RecordFilter
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.tables import record_owners

_Place = tuple[str, str]

_insert = insert_many(
    record_owners,
    record_owners.columns.keys(),
    on_conflict=lambda insert: insert.on_conflict_do_nothing(),
)


def note(tx: Connection, users: Mapping[_Place, str], at: datetime | None) -> None:
    """Store whose records these are, by sync and connection, unless it is known."""
    # In one order, so that two transactions never wait for each other.
    rows = [
        {"sync": sync, "connection_id": connection_id, "user_id": user_id, "created_at": at}
        for (sync, connection_id), user_id in sorted(users.items())
    ]
    _insert.run(tx, rows)


def find(tx: Connection, which: RecordFilter, *, start: str | None, limit: int) -> Sequence[_Place]:
    """The connections whose records match, each with its user, in order from `start` on."""
    query = owned(which)
    if start is not None:
        query = query.where(record_owners.c.connection_id >= start)
    rows = tx.execute(query.order_by(record_owners.c.connection_id).limit(limit))
    return [(row.connection_id, row.user_id) for row in rows]


def users_of(tx: Connection, sync: str, connection_ids: Iterable[str]) -> Mapping[str, str]:
    """The user of each of these connections."""
    query = owned(RecordFilter(sync=sync)).where(
        record_owners.c.connection_id.in_(set(connection_ids))
    )
    return {row.connection_id: row.user_id for row in tx.execute(query)}


def owned(which: RecordFilter) -> Select[str, str]:
    """The connections whose records the filter allows to see, each with its user."""
    query = select(record_owners.c.connection_id, record_owners.c.user_id).where(
        record_owners.c.sync == which.sync
    )
    if which.user_id is not None:
        query = query.where(record_owners.c.user_id == which.user_id)
    if which.connection_id is not None:
        query = query.where(record_owners.c.connection_id == which.connection_id)
    return query
