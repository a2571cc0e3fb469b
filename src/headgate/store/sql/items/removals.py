"""Removed connections, remembered for a while so that no item is registered for them again.

A worker may still find items for a connection that is being removed. They are not registered; items
that another transaction registered at that very moment are found by `removed_with_items`.
"""

from collections.abc import Iterable

from sqlalchemy import Connection, delete, func, select

from headgate.base.encoding import hash_text
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.items import tombstones
from headgate.store.sql.items.retention import REMOVALS_KEPT
from headgate.store.sql.tables import items, removed_connections, troubles


def note(tx: Connection, now: Moment, connection_id: str) -> None:
    """Store that the connection was removed, and forget what people were told about it."""
    tx.execute(delete(troubles).where(troubles.c.connection_id == connection_id))
    tombstones.forget(tx, connection_id)
    _note(tx, now, connection_id)


def note_erased(tx: Connection, now: Moment, user_id: str) -> None:
    """The same of an erased user, whose id may stand for a connection: only its hash is stored."""
    _note(tx, now, hash_text(user_id))


def _note(tx: Connection, now: Moment, stored_id: str) -> None:
    row = {"connection_id": stored_id, "removed_at": now.at()}
    tx.execute(insert_into(tx.dialect, removed_connections).values(row).on_conflict_do_nothing())


def removed_among(tx: Connection, connection_ids: Iterable[str]) -> set[str]:
    """The removed connections among these."""
    hashed = {hash_text(each): each for each in connection_ids}
    known = removed_connections.c.connection_id
    found = tx.execute(select(known).where(known.in_({*hashed, *hashed.values()}))).scalars()
    return {hashed.get(each, each) for each in found}


def removed_with_items(tx: Connection) -> str | None:
    """One removed connection that still has items."""
    known = removed_connections.c.connection_id
    # MIN makes the database read one index entry per connection; EXISTS could scan all items.
    first = select(func.min(items.c.collection)).where(items.c.connection_id == known)
    query = select(known).where(first.scalar_subquery().is_not(None)).limit(1)
    return tx.execute(query).scalar()


def prune(tx: Connection, now: Moment) -> None:
    """Delete the rows of connections that were removed long ago."""
    tx.execute(
        delete(removed_connections).where(removed_connections.c.removed_at < now.at(-REMOVALS_KEPT))
    )
