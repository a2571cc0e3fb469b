"""Rows of the table of connections: their columns, and the values that they stand for."""

from typing import Any

from sqlalchemy import ColumnElement, and_

from headgate.model.connection import Connection, SealedCredentials
from headgate.ports.connections.store import SealedConnection
from headgate.store.sql.tables import connections

COLUMNS = tuple(connections.c[name] for name in Connection.__struct_fields__)
SEALED = (connections.c.sealed_access, connections.c.sealed_refresh, connections.c.key_id)


def at_version(connection_id: str, version: int) -> ColumnElement[bool]:
    """The condition that the credentials have not changed since that version."""
    return and_(connections.c.id == connection_id, connections.c.version == version)


def sealed_values(sealed: SealedCredentials) -> dict[str, Any]:
    """The columns of encrypted credentials."""
    return {
        "sealed_access": sealed.access,
        "sealed_refresh": sealed.refresh,
        "key_id": sealed.key_id,
    }


def to_connection(row: Any) -> Connection:
    """The connection of a row of `COLUMNS`."""
    # Not strict: a row may also have the credentials' columns after the model's fields.
    return Connection(**dict(zip(Connection.__struct_fields__, row, strict=False)))


def to_sealed(row: Any) -> SealedConnection:
    """The connection and the credentials of a row of `COLUMNS` and `SEALED`."""
    sealed = SealedCredentials(
        access=row.sealed_access, refresh=row.sealed_refresh, key_id=row.key_id
    )
    return SealedConnection(to_connection(row), sealed)
