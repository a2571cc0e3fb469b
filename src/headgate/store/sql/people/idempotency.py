"""Requests with an Idempotency-Key.

A request begins with the insert of its row, so of two concurrent requests one wins. The winner has
the claim until `expires_at`, and its later writes name that time: if another request has taken over
meanwhile, they find no row.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from headgate.base.errors import Conflict
from headgate.ports.people.idempotency import (
    Known,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, writes, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.tables import idempotent_requests as requests

#: The most expired requests that a new request deletes.
PRUNE_MAX = 100

_UNANSWERED: dict[str, Any] = {"status": None, "headers": {}, "body": None}


def begin(
    tx: Connection, now: Moment, owner: str, key: str, request_hash: str, *, lease: timedelta
) -> Known:
    """Insert the request's row or take over an expired one; else return what is stored."""
    values = {**_UNANSWERED, "request_hash": request_hash, "expires_at": now.at(lease)}
    insert = insert_into(tx.dialect, requests).values(owner=owner, key=key, **values)
    statement = insert.on_conflict_do_update(
        index_elements=[requests.c.owner, requests.c.key],
        set_=values,
        where=requests.c.expires_at <= now.at(),
    ).returning(requests.c.expires_at)
    until: datetime | None = tx.execute(statement).scalar_one_or_none()
    if until is not None:
        # Done after the insert: it waits for no lock, so it cannot deadlock.
        _prune(tx, now)
        return RequestStarted(until)
    row = tx.execute(select(requests).where(_is(owner, key))).one_or_none()
    if row is None:
        # It was abandoned between the two statements.
        raise Conflict("the same request was abandoned at this moment; try again")
    if row.request_hash != request_hash:
        return RequestMismatch()
    if row.status is None:
        return RequestInProgress()
    return StoredAnswer(status=row.status, headers=row.headers, body=row.body)


def _prune(tx: Connection, now: Moment) -> None:
    """Delete some expired requests; another request deletes those that are locked."""
    old = (
        select(requests.c.owner, requests.c.key)
        .where(requests.c.expires_at <= now.at())
        .order_by(requests.c.expires_at)
        .limit(PRUNE_MAX)
        .with_for_update(skip_locked=True)
    )
    for owner, key in tx.execute(old).all():
        tx.execute(delete(requests).where(_is(owner, key)))


def finish(
    tx: Connection,
    now: Moment,
    owner: str,
    key: str,
    started: RequestStarted,
    answer: StoredAnswer,
    *,
    keep: timedelta,
) -> bool:
    """Store the answer, unless the request was taken over meanwhile."""
    statement = (
        update(requests)
        .where(_is_claimed(owner, key, started))
        .values(
            status=answer.status,
            headers=dict(answer.headers),
            body=answer.body,
            expires_at=now.at(keep),
        )
    )
    return tx.execute(statement).rowcount == 1


def abandon(tx: Connection, owner: str, key: str, started: RequestStarted) -> None:
    """Delete the request's row, unless it was taken over meanwhile."""
    tx.execute(delete(requests).where(_is_claimed(owner, key, started)))


def _is(owner: str, key: str) -> ColumnElement[bool]:
    return and_(requests.c.owner == owner, requests.c.key == key)


def _is_claimed(owner: str, key: str, started: RequestStarted) -> ColumnElement[bool]:
    return and_(
        _is(owner, key), requests.c.status.is_(None), requests.c.expires_at == started.until
    )


class SqlIdempotency(SqlPort):
    """Idempotent requests in SQLite or Postgres."""

    begin = writes_timed(begin)
    finish = writes_timed(finish)
    abandon = writes(abandon)
