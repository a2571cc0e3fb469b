"""Erasures of users: one at a time for each user, in bounded batches, resumable after a crash."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from headgate.base.errors import NotFound
from headgate.model.erasure import Erasure
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, autocommit_reads, reads, writes, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.items import removals
from headgate.store.sql.people.personal_data import (
    TABLES,
    delete_some,
    export_page,
    has_rows,
    owner_of,
)
from headgate.store.sql.tables import api_keys, erasures

_ERASURE = tuple(erasures.c[name] for name in Erasure.__struct_fields__)


def begin(
    tx: Connection,
    now: Moment,
    erasure_id: str,
    user_id: str,
    *,
    by: str,
    systems: Iterable[str] = (),
) -> Erasure:
    """Begin the user's erasure, or go on with the one that has not finished."""
    new = insert_into(tx.dialect, erasures).values(
        id=erasure_id,
        user_id=user_id,
        connection_ids=(),
        systems=(),
        asked_by=by,
        asked_at=now.at(),
        deleted={},
        unrevoked=(),
    )
    tx.execute(new.on_conflict_do_nothing())
    erasure = _locked(tx, erasures.c.user_id == user_id)
    erasure = _change(tx, erasure, systems=tuple(sorted({*erasure.systems, *systems})))
    # With their keys, the user's own programs could make new rows meanwhile.
    revoked = func.coalesce(api_keys.c.revoked_at, now.at())
    tx.execute(update(api_keys).where(api_keys.c.user_id == user_id).values(revoked_at=revoked))
    return _note_connections(tx, now, erasure, user_id)


def get(tx: Connection, erasure_id: str) -> Erasure:
    """The erasure, finished or not."""
    return _to_erasure(tx.execute(select(*_ERASURE).where(erasures.c.id == erasure_id)).one())


def note_unrevoked(tx: Connection, erasure_id: str, source: str) -> None:
    """Store that the authorization at that provider could not be revoked."""
    erasure = _locked(tx, erasures.c.id == erasure_id)
    _change(tx, erasure, unrevoked=tuple(sorted({*erasure.unrevoked, source})))


def erase_some(tx: Connection, erasure_id: str, *, limit: int) -> int:
    """Delete up to `limit` rows of the user; returns how many: 0 if there are none left."""
    erasure = _locked(tx, erasures.c.id == erasure_id)
    if erasure.user_id is None:
        return 0
    owner = owner_of(tx, erasure.user_id, erasure.connection_ids)
    deleted = dict(erasure.deleted)
    total = 0
    for each in reversed(TABLES):
        count = delete_some(tx, each, owner, limit=limit - total)
        if count:
            deleted[each.kind] = deleted.get(each.kind, 0) + count
            total += count
        if total == limit:
            break
    if total:
        _change(tx, erasure, deleted=deleted)
    return total


def finish(tx: Connection, now: Moment, erasure_id: str) -> Erasure | None:
    """End the erasure and forget whose it was; None if something is stored of them again."""
    erasure = _locked(tx, erasures.c.id == erasure_id)
    if erasure.user_id is None:
        return erasure
    # A job that was submitted meanwhile may have brought a connection of its own.
    erasure = _note_connections(tx, now, erasure, erasure.user_id)
    owner = owner_of(tx, str(erasure.user_id), erasure.connection_ids)
    if any(has_rows(tx, each, owner) for each in TABLES):
        return None
    return _change(tx, erasure, user_id=None, connection_ids=(), finished_at=now.at())


def list_unfinished(tx: Connection, *, limit: int) -> list[Erasure]:
    """Erasures that have not finished, the oldest first."""
    query = select(*_ERASURE).where(erasures.c.user_id.is_not(None))
    return [_to_erasure(row) for row in tx.execute(query.order_by(erasures.c.id).limit(limit))]


def _note_connections(tx: Connection, now: Moment, erasure: Erasure, user_id: str) -> Erasure:
    """Store the user's connections, and let no item be registered for them any more."""
    known = set(owner_of(tx, user_id, erasure.connection_ids).connection_ids)
    added = sorted(known.difference(erasure.connection_ids))
    for connection_id in added:
        if connection_id == user_id:
            removals.note_erased(tx, now, user_id)
        else:
            removals.note(tx, now, connection_id)
    return _change(tx, erasure, connection_ids=tuple(sorted(known))) if added else erasure


def _locked(tx: Connection, where: Any) -> Erasure:
    row = tx.execute(select(*_ERASURE).where(where).with_for_update()).one_or_none()
    if row is None:
        raise NotFound("there is no such erasure")
    return _to_erasure(row)


def _change(tx: Connection, erasure: Erasure, **values: Any) -> Erasure:
    statement = update(erasures).where(erasures.c.id == erasure.id).values(**values)
    return _to_erasure(tx.execute(statement.returning(*_ERASURE)).one())


def _to_erasure(row: Row[Any]) -> Erasure:
    return Erasure(**dict(zip(Erasure.__struct_fields__, row, strict=True)))


# ---- the port ----------------------------------------------------------------------------------


class SqlErasures(SqlPort):
    """Erasures in SQLite or Postgres."""

    @property
    def kinds(self) -> Sequence[str]:
        return [each.kind for each in TABLES]

    begin = writes_timed(begin)
    get = autocommit_reads(get)
    note_unrevoked = writes(note_unrevoked)
    erase_some = writes(erase_some)
    finish = writes_timed(finish)
    list_unfinished = autocommit_reads(list_unfinished)
    export_page = reads(export_page)
