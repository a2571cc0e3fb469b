"""Pages of records, in the order of their connections and keys, as the primary key has them.

A filter by time or by the beginning of a key is checked row by row. A page looks at `SCAN_MAX` rows
of a connection at most, so that its cost does not depend on how few of them match.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, tuple_

from headgate.model.record import Record, RecordRow
from headgate.ports.records.store import RecordFilter, RecordPosition, RecordRows
from headgate.store.sql.records import owners
from headgate.store.sql.tables import records

#: The most rows of a connection that one page looks at, and the most connections.
SCAN_MAX = 10_000
CONNECTIONS_MAX = 100

_COLUMNS = (
    records.c.sync,
    records.c.connection_id,
    records.c.key,
    records.c.data,
    records.c.created_at,
    records.c.updated_at,
)


def find_records(
    tx: Connection, which: RecordFilter, *, after: RecordPosition | None = None, limit: int
) -> RecordRows:
    """Records in the order of their connections and keys, after that position."""
    if which.user_id is None and which.connection_id is None:
        found, end = _scan(tx, which, None, after, room=limit + 1)
        users = owners.users_of(tx, which.sync, [row.connection_id for row in found])
        rows = [_row(row, users.get(row.connection_id, row.connection_id)) for row in found]
        return _page(rows, end, limit)
    return _of_connections(tx, which, after, limit)


def _of_connections(
    tx: Connection, which: RecordFilter, after: RecordPosition | None, limit: int
) -> RecordRows:
    """The same for the connections of one user, one after another, or for a single one."""
    start = None if after is None else after.connection_id
    mine = owners.find(tx, which, start=start, limit=CONNECTIONS_MAX + 1)
    rows: list[RecordRow] = []
    for connection_id, user_id in mine[:CONNECTIONS_MAX]:
        begin = after if connection_id == start else None
        room = limit + 1 - len(rows)
        found, end = _scan(tx, which, connection_id, begin, room=room)
        rows += [_row(row, user_id) for row in found]
        # A connection that was not read to its end, or a full page: the next one goes on here.
        if end is not None or len(rows) > limit:
            return _page(rows, end, limit)
    more = [RecordPosition(connection_id, None) for connection_id, _ in mine[CONNECTIONS_MAX:]]
    return _page(rows, more[0] if more else None, limit)


def _page(rows: list[RecordRow], end: RecordPosition | None, limit: int) -> RecordRows:
    """The first `limit` rows; `end` is where the look at the others ended, if it did early."""
    if len(rows) > limit:
        last = rows[limit - 1]
        return RecordRows(rows[:limit], RecordPosition(last.connection_id, last.key))
    return RecordRows(rows, end)


def _scan(
    tx: Connection,
    which: RecordFilter,
    connection_id: str | None,
    after: RecordPosition | None,
    *,
    room: int,
) -> tuple[Sequence[Any], RecordPosition | None]:
    """At most `room` of the next `SCAN_MAX` records, and where these end; None: there are no more.

    Of one connection if it is named, else of all.
    """
    place = _place(connection_id)
    within = records.c.sync == which.sync
    if connection_id is not None:
        within &= records.c.connection_id == connection_id
    if after is not None:
        within &= _beyond(place, connection_id, after)
    matches, end = _matches(which), None
    if matches:
        last = select(records.c.connection_id, records.c.key).where(within)
        edge = tx.execute(last.order_by(*place).offset(SCAN_MAX - 1).limit(1)).one_or_none()
        if edge is not None:
            end = RecordPosition(edge.connection_id, edge.key)
            within &= ~_beyond(place, connection_id, end)
    query = select(*_COLUMNS).where(within, *matches).order_by(*place).limit(room)
    return tx.execute(query).all(), end


def _place(connection_id: str | None) -> tuple[ColumnElement[str], ...]:
    """What the records are ordered by."""
    if connection_id is not None:
        return (records.c.key,)
    return (records.c.connection_id, records.c.key)


def _beyond(
    place: tuple[ColumnElement[str], ...], connection_id: str | None, after: RecordPosition
) -> ColumnElement[bool]:
    """The condition for records after that position, in a form that the primary key can answer."""
    if after.key is None:
        return records.c.connection_id >= after.connection_id
    if connection_id is not None:
        return records.c.key > after.key
    return tuple_(*place) > tuple_(after.connection_id, after.key)


def _matches(which: RecordFilter) -> list[ColumnElement[bool]]:
    """The conditions that are checked row by row."""
    conditions: list[ColumnElement[bool]] = []
    if which.key_prefix is not None:
        # Not a range of keys: the order of texts in Postgres depends on its collation.
        begin = func.substr(records.c.key, 1, len(which.key_prefix))
        conditions.append(begin == which.key_prefix)
    if which.since is not None:
        conditions.append(records.c.updated_at >= which.since)
    if which.until is not None:
        conditions.append(records.c.updated_at < which.until)
    return conditions


def list_records(
    tx: Connection, sync: str, connection_id: str, *, after: str | None = None, limit: int
) -> list[Record]:
    """A connection's records, in the order of their keys."""
    query = select(records.c.key, records.c.data).where(
        records.c.sync == sync, records.c.connection_id == connection_id
    )
    if after is not None:
        query = query.where(records.c.key > after)
    rows = tx.execute(query.order_by(records.c.key).limit(limit))
    return [Record(row.key, row.data) for row in rows]


def list_under_key(
    tx: Connection, which: RecordFilter, key: str, *, limit: int
) -> Sequence[RecordRow]:
    """The records of different connections under this key."""
    owned = owners.owned(which).subquery()
    query: Select[Any] = (
        select(*_COLUMNS, owned.c.user_id)
        .join_from(owned, records, records.c.connection_id == owned.c.connection_id)
        .where(records.c.sync == which.sync, records.c.key == key)
        .order_by(records.c.connection_id)
        .limit(limit)
    )
    return [_row(row, row.user_id) for row in tx.execute(query)]


def _row(row: Row[Any], user_id: str) -> RecordRow:
    return RecordRow(
        sync=row.sync,
        connection_id=row.connection_id,
        key=row.key,
        data=row.data,
        created_at=row.created_at,
        updated_at=row.updated_at,
        user_id=user_id,
    )
