"""API keys, and requests with an Idempotency-Key.

A request is begun by inserting its row, so of two that come at once one wins. Who begins it holds
it until `expires_at`, and that very time is what later writes must name: whoever comes back after
it was taken over finds no row.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, select, update

from headgate.base.errors import Conflict, NotFound
from headgate.model.access import ApiKey
from headgate.ports.access import Answered, Begun, Changed, KeptKey, Known, NewApiKey, UnderWay
from headgate.store.sql.moment import Moment
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import api_keys
from headgate.store.sql.tables import idempotent_requests as requests

#: Requests that ran out and are deleted in passing, at most so many at a time.
PRUNE_MAX = 100

_KEY = tuple(api_keys.c[name] for name in ApiKey.__struct_fields__)
_UNANSWERED: dict[str, Any] = {"status": None, "headers": {}, "body": None}


# ---- keys --------------------------------------------------------------------------------------


def add_key(tx: Connection, now: Moment, new: NewApiKey) -> ApiKey:
    """Store a key."""
    statement = (
        insert_into(tx.dialect, api_keys)
        .values(
            id=new.id,
            hash=new.hash,
            name=new.name,
            user_id=new.user_id,
            role=new.role,
            created_at=now.at(),
        )
        .returning(*_KEY)
    )
    return _to_key(tx.execute(statement).one())


def find_key(tx: Connection, key_id: str) -> KeptKey | None:
    """The key and its hash."""
    query = select(*_KEY, api_keys.c.hash).where(api_keys.c.id == key_id)
    row = tx.execute(query).one_or_none()
    return None if row is None else KeptKey(_to_key(row[:-1]), row[-1])


def list_keys(tx: Connection, *, limit: int, after: str | None = None) -> list[ApiKey]:
    """Keys in the order of their ids."""
    query = select(*_KEY).order_by(api_keys.c.id).limit(limit)
    if after is not None:
        query = query.where(api_keys.c.id > after)
    return [_to_key(row) for row in tx.execute(query)]


def revoke_key(tx: Connection, now: Moment, key_id: str) -> ApiKey:
    """Revoke a key; one that is revoked already keeps its time."""
    statement = (
        update(api_keys)
        .where(api_keys.c.id == key_id)
        .values(revoked_at=func.coalesce(api_keys.c.revoked_at, now.at()))
        .returning(*_KEY)
    )
    row = tx.execute(statement).one_or_none()
    if row is None:
        raise NotFound(f"there is no API key {key_id!r}")
    return _to_key(row)


def _to_key(row: Row[Any] | tuple[Any, ...]) -> ApiKey:
    return ApiKey(**dict(zip(ApiKey.__struct_fields__, row, strict=True)))


# ---- requests that may come again --------------------------------------------------------------


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
        return Begun(until)
    row = tx.execute(select(requests).where(_is(owner, key))).one_or_none()
    if row is None:
        # It was abandoned between the two looks.
        raise Conflict("the same request was given up at this moment; try again")
    if row.request_hash != request_hash:
        return Changed()
    if row.status is None:
        return UnderWay()
    return Answered(status=row.status, headers=row.headers, body=row.body)


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
    begun: Begun,
    answered: Answered,
    *,
    keep: timedelta,
) -> bool:
    """Note the answer, unless the request was taken over meanwhile."""
    statement = (
        update(requests)
        .where(_held(owner, key, begun))
        .values(
            status=answered.status,
            headers=dict(answered.headers),
            body=answered.body,
            expires_at=now.at(keep),
        )
    )
    return tx.execute(statement).rowcount == 1


def abandon(tx: Connection, owner: str, key: str, begun: Begun) -> None:
    """Delete the request's row, unless it was taken over meanwhile."""
    tx.execute(delete(requests).where(_held(owner, key, begun)))


def _is(owner: str, key: str) -> ColumnElement[bool]:
    return and_(requests.c.owner == owner, requests.c.key == key)


def _held(owner: str, key: str, begun: Begun) -> ColumnElement[bool]:
    return and_(_is(owner, key), requests.c.status.is_(None), requests.c.expires_at == begun.until)
