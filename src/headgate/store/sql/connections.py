"""Connections and their encrypted credentials.

Every statement with a user checks the owner. A write of credentials names the version that it is
based on, and changes nothing if there is a newer one.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy import (
    Connection as Transaction,
)

from headgate.base.errors import IllegalTransition, NotFound
from headgate.model.connection import Connection, ConnectionReason, SealedCredentials
from headgate.model.states import CONNECTION, ConnectionEdge, ConnectionState
from headgate.ports.connections import NewConnection, Renewal, ResealedCredentials, SealedConnection
from headgate.store.sql import removals
from headgate.store.sql.moment import Moment
from headgate.store.sql.port import SqlPort, reads, writes, writes_timed
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import connections

_COLUMNS = tuple(connections.c[name] for name in Connection.__struct_fields__)
_SEALED = (connections.c.sealed_access, connections.c.sealed_refresh, connections.c.key_id)
_NO_LEASE = {"lease_holder": None, "lease_until": None}


# ---- connecting --------------------------------------------------------------------------------


def add(tx: Transaction, now: Moment, new: NewConnection) -> Connection | None:
    """Store a connection, unless the user has connected that account already."""
    statement = (
        insert_into(tx.dialect, connections)
        .values(
            id=new.id,
            user_id=new.user_id,
            source=new.source,
            state=CONNECTION.initial,
            reason=ConnectionReason.CONNECTED,
            external_id=new.external_id,
            scopes=new.scopes,
            expires_at=new.expires_at,
            version=1,
            created_at=now.at(),
            updated_at=now.at(),
            **_sealed_values(new.sealed),
        )
        .on_conflict_do_nothing()
        .returning(*_COLUMNS)
    )
    return _one(tx.execute(statement).one_or_none())


def reconnect(
    tx: Transaction, now: Moment, connection_id: str, renewal: Renewal, *, user_id: str
) -> Connection | None:
    """Store new credentials of the same account; None if they belong to another account."""
    get(tx, connection_id, user_id=user_id)
    statement = (
        update(connections)
        .where(
            _is(connection_id, user_id),
            connections.c.state.in_(CONNECTION.edge(ConnectionEdge.RECONNECT).sources),
            _same_account(renewal.external_id),
        )
        .values(
            state=CONNECTION.edge(ConnectionEdge.RECONNECT).target,
            reason=ConnectionReason.CONNECTED,
            error=None,
            external_id=func.coalesce(connections.c.external_id, renewal.external_id),
            **_renewed_values(now, renewal),
        )
        .returning(*_COLUMNS)
    )
    return _one(tx.execute(statement).one_or_none())


# ---- finding, pausing and removing -------------------------------------------------------------


def get(tx: Transaction, connection_id: str, *, user_id: str | None = None) -> Connection:
    """The connection; NotFound if it does not exist or belongs to another user."""
    row = tx.execute(select(*_COLUMNS).where(_is(connection_id, user_id))).one_or_none()
    if row is None:
        raise _not_found(connection_id)
    return _to_connection(row)


def find(tx: Transaction, user_id: str, source: str, external_id: str) -> Connection | None:
    """The user's connection to that account."""
    query = select(*_COLUMNS).where(
        connections.c.user_id == user_id,
        connections.c.source == source,
        connections.c.external_id == external_id,
    )
    return _one(tx.execute(query).one_or_none())


def of_account(
    tx: Transaction, source: str, external_id: str, *, limit: int = 100
) -> list[Connection]:
    """All users' connections to that account."""
    query = (
        select(*_COLUMNS)
        .where(connections.c.source == source, connections.c.external_id == external_id)
        .order_by(connections.c.id)
        .limit(limit)
    )
    return [_to_connection(row) for row in tx.execute(query)]


def list_connections(
    tx: Transaction, user_id: str, *, limit: int, after: str | None = None
) -> list[Connection]:
    """A user's connections, oldest first, because ids sort by the time of their creation."""
    query = select(*_COLUMNS).where(connections.c.user_id == user_id)
    if after is not None:
        query = query.where(connections.c.id > after)
    found = tx.execute(query.order_by(connections.c.id).limit(limit))
    return [_to_connection(row) for row in found]


def pause(
    tx: Transaction, now: Moment, connection_id: str, *, user_id: str | None = None
) -> Connection:
    """Pause the connection."""
    return _steer(tx, now, connection_id, user_id, ConnectionEdge.PAUSE, ConnectionReason.OPERATOR)


def resume(
    tx: Transaction, now: Moment, connection_id: str, *, user_id: str | None = None
) -> Connection:
    """Resume the connection."""
    return _steer(tx, now, connection_id, user_id, ConnectionEdge.RESUME, ConnectionReason.RESUMED)


def _steer(
    tx: Transaction,
    now: Moment,
    connection_id: str,
    user_id: str | None,
    edge_name: ConnectionEdge,
    reason: ConnectionReason,
) -> Connection:
    """Follow an edge of the state machine; nothing changes in its target state."""
    edge = CONNECTION.edge(edge_name)
    statement = (
        update(connections)
        .where(_is(connection_id, user_id), connections.c.state.in_(edge.sources))
        .values(state=edge.target, reason=reason, updated_at=now.at())
        .returning(*_COLUMNS)
    )
    changed = _one(tx.execute(statement).one_or_none())
    if changed is not None:
        return changed
    current = get(tx, connection_id, user_id=user_id)
    if current.state is edge.target:
        return current
    raise IllegalTransition(
        f"connection {connection_id} is {current.state.value}: {edge_name} is not possible"
    )


def remove(tx: Transaction, now: Moment, connection_id: str, *, user_id: str | None = None) -> None:
    """Delete the connection with its credentials, and store that it was removed."""
    if tx.execute(delete(connections).where(_is(connection_id, user_id))).rowcount == 0:
        raise _not_found(connection_id)
    removals.note(tx, now, connection_id)


# ---- renewing credentials ----------------------------------------------------------------------


def get_sealed(tx: Transaction, connection_id: str, *, user_id: str) -> SealedConnection:
    """The connection with its credentials."""
    query = select(*_COLUMNS, *_SEALED).where(_is(connection_id, user_id))
    row = tx.execute(query).one_or_none()
    if row is None:
        raise _not_found(connection_id)
    return _to_sealed(row)


def lease(
    tx: Transaction,
    now: Moment,
    connection_id: str,
    *,
    version: int,
    holder: str,
    term: timedelta,
) -> bool:
    """Take the lease if nobody has it and the credentials have not changed."""
    free = or_(connections.c.lease_until.is_(None), connections.c.lease_until <= now.at())
    statement = (
        update(connections)
        .where(_at_version(connection_id, version), free)
        .values(lease_holder=holder, lease_until=now.at(term))
    )
    return tx.execute(statement).rowcount == 1


def release(tx: Transaction, connection_id: str, *, holder: str) -> None:
    """Release the lease, if `holder` still has it."""
    tx.execute(
        update(connections)
        .where(connections.c.id == connection_id, connections.c.lease_holder == holder)
        .values(**_NO_LEASE)
    )


def renew(
    tx: Transaction, now: Moment, connection_id: str, renewal: Renewal, *, version: int
) -> Connection | None:
    """Store the credentials with which the provider renewed these."""
    # Another worker may have asked second with the same credentials, and recorded a refusal.
    edge = CONNECTION.edge(ConnectionEdge.RESCUE)
    rescued = connections.c.state.in_(edge.sources)
    statement = (
        update(connections)
        .where(_at_version(connection_id, version))
        .values(
            state=case((rescued, _state(edge.target)), else_=connections.c.state),
            reason=case(
                (rescued, literal(ConnectionReason.RENEWED, connections.c.reason.type)),
                else_=connections.c.reason,
            ),
            error=None,
            **_renewed_values(now, renewal),
        )
        .returning(*_COLUMNS)
    )
    return _one(tx.execute(statement).one_or_none())


def refuse(
    tx: Transaction,
    now: Moment,
    connection_id: str,
    *,
    version: int,
    reason: ConnectionReason,
    error: str,
) -> Connection | None:
    """Record that the provider refuses these credentials."""
    edge = CONNECTION.edge(ConnectionEdge.REFUSE)
    statement = (
        update(connections)
        .where(_at_version(connection_id, version), connections.c.state.in_(edge.sources))
        .values(state=edge.target, reason=reason, error=error, updated_at=now.at(), **_NO_LEASE)
        .returning(*_COLUMNS)
    )
    return _one(tx.execute(statement).one_or_none())


# ---- rotating keys -----------------------------------------------------------------------------


def list_under_other_keys(
    tx: Transaction, key_id: str, *, after: str, limit: int
) -> list[SealedConnection]:
    """Connections whose credentials use another key."""
    query = (
        select(*_COLUMNS, *_SEALED)
        .where(connections.c.key_id != key_id, connections.c.id > after)
        .order_by(connections.c.id)
        .limit(limit)
    )
    return [_to_sealed(row) for row in tx.execute(query)]


def reseal(tx: Transaction, batch: Sequence[ResealedCredentials]) -> int:
    """Replace ciphertexts that have not changed since they were read; returns how many.

    The version stays, because the credentials are the same. So a worker that renews them at this
    moment can still store the only valid tokens.
    """
    done = 0
    # In the order of ids, as everywhere, so that transactions never deadlock.
    for each in sorted(batch, key=lambda each: each.connection_id):
        statement = (
            update(connections)
            .where(
                _at_version(each.connection_id, each.version),
                connections.c.key_id == each.old_key_id,
            )
            .values(**_sealed_values(each.sealed))
        )
        done += tx.execute(statement).rowcount
    return done


def count_by_key(tx: Transaction) -> dict[str, int]:
    """The number of connections for each key."""
    query = select(connections.c.key_id, func.count()).group_by(connections.c.key_id)
    return {key_id: count for key_id, count in tx.execute(query)}


# ---- parts of statements -----------------------------------------------------------------------


def _is(connection_id: str, user_id: str | None) -> ColumnElement[bool]:
    by_id = connections.c.id == connection_id
    return by_id if user_id is None else and_(by_id, connections.c.user_id == user_id)


def _at_version(connection_id: str, version: int) -> ColumnElement[bool]:
    return and_(connections.c.id == connection_id, connections.c.version == version)


def _same_account(external_id: str | None) -> ColumnElement[bool]:
    """The condition that the row has that account's id, or that one of the ids is unknown."""
    unknown = connections.c.external_id.is_(None)
    return or_(unknown, literal(external_id is None), connections.c.external_id == external_id)


def _renewed_values(now: Moment, renewal: Renewal) -> dict[str, Any]:
    values = {
        **_sealed_values(renewal.sealed),
        **_NO_LEASE,
        "expires_at": renewal.expires_at,
        "version": connections.c.version + 1,
        "updated_at": now.at(),
    }
    if renewal.scopes is not None:
        values["scopes"] = renewal.scopes
    return values


def _sealed_values(sealed: SealedCredentials) -> dict[str, Any]:
    return {
        "sealed_access": sealed.access,
        "sealed_refresh": sealed.refresh,
        "key_id": sealed.key_id,
    }


def _state(state: ConnectionState) -> ColumnElement[Any]:
    return literal(state, connections.c.state.type)


def _one(row: Row[Any] | None) -> Connection | None:
    return None if row is None else _to_connection(row)


def _to_connection(row: Row[Any]) -> Connection:
    # Not strict: a row may also have the credentials' columns after the model's fields.
    return Connection(**dict(zip(Connection.__struct_fields__, row, strict=False)))


def _to_sealed(row: Any) -> SealedConnection:
    sealed = SealedCredentials(
        access=row.sealed_access, refresh=row.sealed_refresh, key_id=row.key_id
    )
    return SealedConnection(_to_connection(row), sealed)


def _not_found(connection_id: str) -> NotFound:
    return NotFound(f"there is no connection {connection_id!r}")


# ---- the ports ---------------------------------------------------------------------------------


class SqlConnections(SqlPort):
    """Connections, credentials and the rotation of keys, in SQLite or Postgres: one table."""

    add = writes_timed(add)
    reconnect = writes_timed(reconnect)
    get = reads(get)
    find = reads(find)
    of_account = reads(of_account)
    list_connections = reads(list_connections)
    pause = writes_timed(pause)
    resume = writes_timed(resume)
    remove = writes_timed(remove)

    get_sealed = reads(get_sealed)
    lease = writes_timed(lease)
    release = writes(release)
    renew = writes_timed(renew)
    refuse = writes_timed(refuse)

    list_under_other_keys = reads(list_under_other_keys)
    reseal = writes(reseal)
    count_by_key = reads(count_by_key)
