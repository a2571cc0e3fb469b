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
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.states import CONNECTION, ConnectionEdge, ConnectionState
from headgate.ports.connections.store import NewConnection, Renewal, SealedConnection
from headgate.store.sql.connections import resealing
from headgate.store.sql.connections.rows import (
    COLUMNS,
    SEALED,
    at_version,
    sealed_values,
    to_connection,
    to_sealed,
)
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads, writes, writes_timed
from headgate.store.sql.engine.statements import ROWS_MAX, insert_into
from headgate.store.sql.items import removals
from headgate.store.sql.people import users
from headgate.store.sql.tables import connections

_NO_LEASE = {"lease_holder": None, "lease_until": None}


# ---- connecting --------------------------------------------------------------------------------


def add(
    tx: Transaction, now: Moment, new: NewConnection, *, in_person: bool = False
) -> Connection | None:
    """Store a connection and its user, unless they have connected that account already."""
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
            **sealed_values(new.sealed),
        )
        .on_conflict_do_nothing()
        .returning(*COLUMNS)
    )
    added = _one(tx.execute(statement).one_or_none())
    if added is not None:
        users.connect(tx, now, new.user_id, in_person=in_person)
    return added


def reconnect(
    tx: Transaction,
    now: Moment,
    connection_id: str,
    renewal: Renewal,
    *,
    user_id: str,
    in_person: bool = False,
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
        .returning(*COLUMNS)
    )
    reconnected = _one(tx.execute(statement).one_or_none())
    if reconnected is not None:
        users.connect(tx, now, user_id, in_person=in_person)
    return reconnected


# ---- finding, pausing and removing -------------------------------------------------------------


def get(tx: Transaction, connection_id: str, *, user_id: str | None = None) -> Connection:
    """The connection; NotFound if it does not exist or belongs to another user."""
    row = tx.execute(select(*COLUMNS).where(_is(connection_id, user_id))).one_or_none()
    if row is None:
        raise _not_found(connection_id)
    return to_connection(row)


def find(tx: Transaction, user_id: str, source: str, external_id: str) -> Connection | None:
    """The user's connection to that account."""
    query = select(*COLUMNS).where(
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
        select(*COLUMNS)
        .where(connections.c.source == source, connections.c.external_id == external_id)
        .order_by(connections.c.id)
        .limit(limit)
    )
    return [to_connection(row) for row in tx.execute(query)]


def list_connections(
    tx: Transaction, user_id: str | None, *, limit: int, after: str | None = None
) -> list[Connection]:
    """A user's or all connections, oldest first, because ids sort by the time of their creation."""
    query = select(*COLUMNS)
    if user_id is not None:
        query = query.where(connections.c.user_id == user_id)
    if after is not None:
        query = query.where(connections.c.id > after)
    found = tx.execute(query.order_by(connections.c.id).limit(limit))
    return [to_connection(row) for row in found]


def find_many(tx: Transaction, ids: Sequence[str], user_ids: Sequence[str]) -> list[Connection]:
    """The connections with these ids, and all connections of these users."""
    found: dict[str, Connection] = {}
    for begin in range(0, max(len(ids), len(user_ids)), ROWS_MAX):
        some = slice(begin, begin + ROWS_MAX)
        named = or_(connections.c.id.in_(ids[some]), connections.c.user_id.in_(user_ids[some]))
        rows = map(to_connection, tx.execute(select(*COLUMNS).where(named)))
        found.update((connection.id, connection) for connection in rows)
    return [found[each] for each in sorted(found)]


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
        .returning(*COLUMNS)
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
    query = select(*COLUMNS, *SEALED).where(_is(connection_id, user_id))
    row = tx.execute(query).one_or_none()
    if row is None:
        raise _not_found(connection_id)
    return to_sealed(row)


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
        .where(at_version(connection_id, version), free)
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
        .where(at_version(connection_id, version))
        .values(
            state=case((rescued, _state(edge.target)), else_=connections.c.state),
            reason=case(
                (rescued, literal(ConnectionReason.RENEWED, connections.c.reason.type)),
                else_=connections.c.reason,
            ),
            error=None,
            **_renewed_values(now, renewal),
        )
        .returning(*COLUMNS)
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
        .where(at_version(connection_id, version), connections.c.state.in_(edge.sources))
        .values(state=edge.target, reason=reason, error=error, updated_at=now.at(), **_NO_LEASE)
        .returning(*COLUMNS)
    )
    return _one(tx.execute(statement).one_or_none())


# ---- parts of statements -----------------------------------------------------------------------


def _is(connection_id: str, user_id: str | None) -> ColumnElement[bool]:
    by_id = connections.c.id == connection_id
    return by_id if user_id is None else and_(by_id, connections.c.user_id == user_id)


def _same_account(external_id: str | None) -> ColumnElement[bool]:
    """The condition that the row has that account's id, or that one of the ids is unknown."""
    unknown = connections.c.external_id.is_(None)
    return or_(unknown, literal(external_id is None), connections.c.external_id == external_id)


def _renewed_values(now: Moment, renewal: Renewal) -> dict[str, Any]:
    values = {
        **sealed_values(renewal.sealed),
        **_NO_LEASE,
        "expires_at": renewal.expires_at,
        "version": connections.c.version + 1,
        "updated_at": now.at(),
    }
    if renewal.scopes is not None:
        values["scopes"] = renewal.scopes
    return values


def _state(state: ConnectionState) -> ColumnElement[Any]:
    return literal(state, connections.c.state.type)


def _one(row: Row[Any] | None) -> Connection | None:
    return None if row is None else to_connection(row)


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
    find_many = reads(find_many)
    pause = writes_timed(pause)
    resume = writes_timed(resume)
    remove = writes_timed(remove)

    get_sealed = reads(get_sealed)
    lease = writes_timed(lease)
    release = writes(release)
    renew = writes_timed(renew)
    refuse = writes_timed(refuse)

    list_under_other_keys = reads(resealing.list_under_other_keys)
    reseal = writes(resealing.reseal)
    count_by_key = reads(resealing.count_by_key)
