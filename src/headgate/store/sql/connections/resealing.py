"""The rotation of keys: credentials found by their key, and encrypted with another one."""

from collections.abc import Sequence

from sqlalchemy import Connection as Transaction
from sqlalchemy import func, select, update

from headgate.ports.connections.store import ResealedCredentials, SealedConnection
from headgate.store.sql.connections.rows import (
    COLUMNS,
    SEALED,
    at_version,
    sealed_values,
    to_sealed,
)
from headgate.store.sql.tables import connections


def list_under_other_keys(
    tx: Transaction, key_id: str, *, after: str, limit: int
) -> list[SealedConnection]:
    """Connections whose credentials use another key."""
    query = (
        select(*COLUMNS, *SEALED)
        .where(connections.c.key_id != key_id, connections.c.id > after)
        .order_by(connections.c.id)
        .limit(limit)
    )
    return [to_sealed(row) for row in tx.execute(query)]


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
                at_version(each.connection_id, each.version),
                connections.c.key_id == each.old_key_id,
            )
            .values(**sealed_values(each.sealed))
        )
        done += tx.execute(statement).rowcount
    return done


def count_by_key(tx: Transaction) -> dict[str, int]:
    """The number of connections for each key."""
    query = select(connections.c.key_id, func.count()).group_by(connections.c.key_id)
    return {key_id: count for key_id, count in tx.execute(query)}
