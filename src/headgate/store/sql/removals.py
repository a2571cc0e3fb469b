"""Connections that were removed: remembered for a while, so that nothing of theirs comes back.

Whoever works for a connection while it is removed may still find items for it. None is taken in
from then on; and what another transaction brought in at that very moment is found by `with_items`.
"""

from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy import Connection, delete, func, select

from headgate.store.sql.moment import Moment
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import items, removed_connections

#: Far longer than anybody works for a connection without looking whether it is there.
KEPT = timedelta(days=7)


def note(tx: Connection, now: Moment, connection_id: str) -> None:
    """Remember that the connection was removed."""
    row = {"connection_id": connection_id, "removed_at": now.at()}
    tx.execute(insert_into(tx.dialect, removed_connections).values(row).on_conflict_do_nothing())


def among(tx: Connection, connection_ids: Iterable[str]) -> set[str]:
    """Those of these connections that were removed."""
    known = removed_connections.c.connection_id
    return set(tx.execute(select(known).where(known.in_(set(connection_ids)))).scalars())


def with_items(tx: Connection) -> str | None:
    """A removed connection that still has items."""
    known = removed_connections.c.connection_id
    # For each one look into the index, whose first is asked for: any would be looked for among all.
    first = select(func.min(items.c.collection)).where(items.c.connection_id == known)
    query = select(known).where(first.scalar_subquery().is_not(None)).limit(1)
    return tx.execute(query).scalar()


def prune(tx: Connection, now: Moment) -> None:
    """Remember no longer what was removed long ago."""
    tx.execute(delete(removed_connections).where(removed_connections.c.removed_at < now.at(-KEPT)))
