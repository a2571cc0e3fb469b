"""API keys, each with the hash of its secret."""

from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from headgate.base.errors import NotFound
from headgate.model.api_key import ApiKey
from headgate.ports.people.api_keys import NewApiKey, StoredApiKey
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.tables import api_keys

_KEY = tuple(api_keys.c[name] for name in ApiKey.__struct_fields__)


def add(tx: Connection, now: Moment, new: NewApiKey) -> ApiKey:
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


def find(tx: Connection, key_id: str) -> StoredApiKey | None:
    """The key and its hash."""
    query = select(*_KEY, api_keys.c.hash).where(api_keys.c.id == key_id)
    row = tx.execute(query).one_or_none()
    return None if row is None else StoredApiKey(_to_key(row[:-1]), row[-1])


def list_keys(tx: Connection, *, limit: int, after: str | None = None) -> list[ApiKey]:
    """Keys in the order of their ids."""
    query = select(*_KEY).order_by(api_keys.c.id).limit(limit)
    if after is not None:
        query = query.where(api_keys.c.id > after)
    return [_to_key(row) for row in tx.execute(query)]


def revoke(tx: Connection, now: Moment, key_id: str) -> ApiKey:
    """Revoke a key; a key that is revoked already keeps its time."""
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


class SqlApiKeys(SqlPort):
    """API keys in SQLite or Postgres."""

    add = writes_timed(add)
    find = reads(find)
    list_keys = reads(list_keys)
    revoke = writes_timed(revoke)
