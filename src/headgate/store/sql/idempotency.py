"""Requests with an Idempotency-Key.

A request is begun by inserting its row, so of two that come at once one wins. Who begins it holds
it until `expires_at`, and that very time is what later writes must name: whoever comes back after
it was taken over finds no row.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from headgate.base.errors import Conflict
from headgate.ports.idempotency import (
    Known,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.store.sql.moment import Moment
from headgate.store.sql.port import SqlPort, writes, writes_timed
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import idempotent_requests as requests

#: Requests that ran out and are deleted in passing, at most so many at a time.
PRUNE_MAX = 100

_UNANSWERED: dict[str, Any] = {"status": None, "headers": {}, "body": None}


def begin(
    tx: Connection, now: Moment, owner: str, key: str, request_hash: str, *, lease: timedelta
) -> Known:
    """Insert the request's row, take over one that ran out, or tell what is known of it."""
    values = {**_UNANSWERED, "request_hash": request_hash, "expires_at": now.at(lease)}
    insert = insert_into(tx.dialect, requests).values(owner=owner, key=key, **values)
    statement = insert.on_conflict_do_update(
        index_elements=[requests.c.owner, requests.c.key],
        set_=values,
        where=requests.c.expires_at <= now.at(),
    ).returning(requests.c.expires_at)
    until: datetime | None = tx.execute(statement).scalar_one_or_none()
    if until is not None:
        # After it: this waits for nobody, so nobody can wait for us in a circle.
        _prune(tx, now)
        return RequestStarted(until)
    row = tx.execute(select(requests).where(_is(owner, key))).one_or_none()
    if row is None:
        # It was abandoned between the two looks.
        raise Conflict("the same request was given up at this moment; try again")
    if row.request_hash != request_hash:
        return RequestMismatch()
    if row.status is None:
        return RequestInProgress()
    return StoredAnswer(status=row.status, headers=row.headers, body=row.body)


def _prune(tx: Connection, now: Moment) -> None:
    """Forget some that ran out; locked ones are somebody else's to forget."""
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
    """Note the answer, unless the request was taken over meanwhile."""
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
