"""Rotating keys: what is left alone, and when it is enough.

That nothing is lost while others work on the same rows is held to on both databases, in
`tests/conformance`; for what is here one of them will do.
"""

from typing import Any

import pytest

from headgate.flow.connections.rekey import ROUNDS_MAX, rekey
from headgate.ports.connections.store import Renewal
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from tests.connecting import fill_connections, opened_tokens, vault
from tests.stores import START

pytestmark = pytest.mark.parametrize("make_database", ["sqlite"], indirect=True)


@pytest.fixture
def store(database: Database) -> SqlConnections:
    return SqlConnections(database)


@pytest.mark.security(12)
async def test_a_ciphertext_from_another_row_is_not_carried_over(store: SqlConnections) -> None:
    # Given somebody who copied one user's tokens into another's row
    first, second = await fill_connections(store, 2, vault("k1"))
    stolen = (await store.get_sealed(first, user_id="ada")).sealed
    assert await store.renew(second, Renewal(sealed=stolen, expires_at=START), version=1)

    done = await rekey(store, vault("k2", "k1"))

    # Then rotation does not make it good
    assert (done.resealed, done.unreadable, done.left) == (1, 1, 1)


async def test_what_cannot_be_read_is_counted_and_left_as_it_is(store: SqlConnections) -> None:
    await fill_connections(store, 3, vault("k1"))

    done = await rekey(store, vault("k2"))

    assert (done.resealed, done.unreadable, done.left) == (0, 3, 3)
    assert await opened_tokens(store, "conn_00000", vault("k1")) == (
        "access of conn_00000",
        "refresh of conn_00000",
    )


async def test_rows_that_never_hold_still_are_left_after_a_while(database: Database) -> None:
    class Restless(SqlConnections):
        looks = 0

        async def reseal(self, batch: Any) -> int:
            Restless.looks += 1
            return 0

    store = Restless(database)
    await fill_connections(store, 2, vault("k1"))

    done = await rekey(store, vault("k2", "k1"))

    assert (done.resealed, done.left, Restless.looks) == (0, 2, ROUNDS_MAX)
