"""Connections on every database: ownership, fences, leases, single use."""

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from headgate.base.clock import ManualClock
from headgate.base.errors import IllegalTransition, NotFound, StoreError
from headgate.model.connection import Connection, ConnectionReason, SealedCredentials
from headgate.model.states import CONNECTION, ConnectionEdge, ConnectionState
from headgate.ports.backend import ConnectionStores
from headgate.ports.connections.store import NewConnection, Renewal, ResealedCredentials
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from headgate.store.sql.tables import connections, removed_connections
from tests.store_bundles import Stores
from tests.stores import START

TERM = timedelta(seconds=60)
OLD = SealedCredentials(access=b"\x00access", refresh=b"\xffrefresh", key_id="k1")
NEW = SealedCredentials(access=b"access 2", refresh=None, key_id="k2")


@pytest.fixture
def store(any_stores: Stores) -> ConnectionStores:
    return any_stores.connections


def new(connection_id: str = "conn_1", **fields: Any) -> NewConnection:
    given = {
        "user_id": "ada",
        "source": "strava",
        "external_id": "athlete 7",
        "scopes": ("read", "write"),
        "expires_at": START + timedelta(hours=6),
        "sealed": OLD,
    }
    return NewConnection(id=connection_id, **{**given, **fields})


async def added(
    store: ConnectionStores, connection_id: str = "conn_1", **fields: Any
) -> Connection:
    connection = await store.add(new(connection_id, **fields))
    assert connection is not None
    return connection


def renewal(**fields: Any) -> Renewal:
    return Renewal(**{"sealed": NEW, "expires_at": START + timedelta(hours=12), **fields})


async def refused(store: ConnectionStores, connection: Connection) -> Connection | None:
    return await store.refuse(
        connection.id,
        version=connection.version,
        reason=ConnectionReason.GRANT_REFUSED,
        error="invalid_grant",
    )


async def brought_to(
    store: ConnectionStores, state: ConnectionState, connection_id: str = "conn_1"
) -> Connection:
    connection = await added(store, connection_id, external_id=connection_id)
    if state is ConnectionState.PAUSED:
        return await store.pause(connection.id)
    if state is ConnectionState.NEEDS_REAUTH:
        gone = await refused(store, connection)
        assert gone is not None
        return gone
    return connection


# ---- keeping and finding -----------------------------------------------------------------------


async def test_a_connection_is_kept_as_it_was_given(store: ConnectionStores) -> None:
    made = await added(store)

    assert made == Connection(
        id="conn_1",
        user_id="ada",
        source="strava",
        state=ConnectionState.ACTIVE,
        reason=ConnectionReason.CONNECTED,
        external_id="athlete 7",
        scopes=("read", "write"),
        expires_at=START + timedelta(hours=6),
        version=1,
        created_at=START,
        updated_at=START,
    )
    assert await store.get("conn_1", user_id="ada") == made
    linked = await store.get_sealed("conn_1", user_id="ada")
    assert (linked.connection, linked.sealed) == (made, OLD)


async def test_an_account_is_connected_once_by_a_user(store: ConnectionStores) -> None:
    await added(store)

    assert await store.add(new("conn_2")) is None
    found = await store.find("ada", "strava", "athlete 7")
    assert found is not None and found.id == "conn_1"
    # But another user may, and so may the same one with another provider or account.
    await added(store, "conn_3", user_id="bob")
    await added(store, "conn_4", source="fitbit")
    await added(store, "conn_5", external_id="athlete 8")
    # And where the provider does not say who it is, nothing can be told apart.
    await added(store, "conn_6", external_id=None)
    await added(store, "conn_7", external_id=None)


async def test_a_users_connections_are_listed_in_pages(store: ConnectionStores) -> None:
    for number in range(5):
        await added(store, f"conn_{number}", external_id=str(number))
    await added(store, "conn_9", user_id="bob")

    first = await store.list_connections("ada", limit=3)
    rest = await store.list_connections("ada", limit=3, after=first[-1].id)

    assert [each.id for each in (*first, *rest)] == [f"conn_{number}" for number in range(5)]
    everybodys = await store.list_connections(None, limit=10)
    assert [each.id for each in everybodys] == [f"conn_{number}" for number in (0, 1, 2, 3, 4, 9)]


@pytest.mark.security(3)
async def test_many_connections_are_found_by_id_and_by_user(store: ConnectionStores) -> None:
    made = [
        await added(store, f"conn_{n}", user_id=f"user_{n % 3}", external_id=f"{n}")
        for n in range(7)
    ]
    # More than one statement takes; an emulator would take seconds.
    unknown = [f"nobody_{n}" for n in range(1500 if isinstance(store, SqlConnections) else 120)]

    found = await store.find_many(["conn_2", "conn_1", "nothing"], [*unknown, "user_0"])

    assert list(found) == [made[0], made[1], made[2], made[3], made[6]]
    assert await store.find_many([*unknown, "conn_5"], []) == [made[5]]
    assert await store.find_many([], []) == []


async def test_another_users_connection_is_as_if_it_were_not_there(store: ConnectionStores) -> None:
    await added(store)

    async def told(connection_id: str) -> list[str]:
        said = []
        for attempt in (
            store.get(connection_id, user_id="bob"),
            store.get_sealed(connection_id, user_id="bob"),
            store.pause(connection_id, user_id="bob"),
            store.resume(connection_id, user_id="bob"),
            store.remove(connection_id, user_id="bob"),
            store.reconnect(connection_id, renewal(), user_id="bob"),
        ):
            with pytest.raises(NotFound) as raised:
                await attempt
            said.append(str(raised.value).replace(connection_id, "ID"))
        return said

    assert await told("conn_1") == await told("conn_404")
    assert await store.find("bob", "strava", "athlete 7") is None
    assert await store.list_connections("bob", limit=10) == []
    # And nothing was done to it.
    linked = await store.get_sealed("conn_1", user_id="ada")
    assert (linked.connection.state, linked.sealed) == (ConnectionState.ACTIVE, OLD)


async def test_a_removed_connection_leaves_room_for_the_same_account(
    store: ConnectionStores,
) -> None:
    await added(store)

    await store.remove("conn_1", user_id="ada")

    with pytest.raises(NotFound):
        await store.get("conn_1")
    with pytest.raises(NotFound):
        await store.remove("conn_1")
    assert await store.find("ada", "strava", "athlete 7") is None
    assert await store.of_account("strava", "athlete 7") == []
    assert await store.list_connections("ada", limit=10) == []
    assert await store.list_connections(None, limit=10) == []
    assert await store.count_by_key() == {}
    assert await store.renew("conn_1", renewal(), version=1) is None
    await added(store, "conn_2")


async def test_a_removed_connection_is_gone_with_its_credentials(database: Database) -> None:
    store = SqlConnections(database)
    await added(store)

    await store.remove("conn_1", user_id="ada")

    with pytest.raises(NotFound):
        await store.get("conn_1")
    assert await database.read(lambda tx: tx.execute(connections.select()).all()) == []
    # All that is remembered is that it was there.
    rows = await database.read(lambda tx: tx.execute(removed_connections.select()).all())
    assert [row.connection_id for row in rows] == ["conn_1"]


# ---- states ------------------------------------------------------------------------------------


async def test_a_row_takes_the_states_of_the_table_and_no_other_word(database: Database) -> None:
    await added(SqlConnections(database))

    for state in ConnectionState:
        statement = update(connections).values(state=state)
        await database.write(lambda tx, change=statement: tx.execute(change))  # type: ignore[misc]
    with pytest.raises(StoreError, match="ck_headgate_connections_state"):
        await database.write(lambda tx: tx.execute(update(connections).values(state="expired")))


async def test_steering_follows_the_table(store: ConnectionStores) -> None:
    both = ((ConnectionEdge.PAUSE, store.pause), (ConnectionEdge.RESUME, store.resume))
    for (edge, steer), state in itertools.product(both, ConnectionState):
        name = f"{edge} {state}"
        before = await brought_to(store, state, name)
        allowed = CONNECTION.edge(edge)

        if state in allowed.sources:
            assert (await steer(name)).state is allowed.target
        elif state is allowed.target:
            # Asked for twice, done once.
            assert await steer(name) == before
        else:
            with pytest.raises(IllegalTransition, match=f"is {state.value}"):
                await steer(name)
            assert await store.get(name) == before


async def test_a_paused_connection_says_so_and_goes_on(store: ConnectionStores) -> None:
    await added(store)

    assert (await store.pause("conn_1", user_id="ada")).reason is ConnectionReason.OPERATOR
    resumed = await store.resume("conn_1", user_id="ada")
    assert (resumed.state, resumed.reason) == (ConnectionState.ACTIVE, ConnectionReason.RESUMED)
    assert resumed.version == 1


async def test_connecting_again_makes_it_active_with_new_credentials(
    store: ConnectionStores, clock: ManualClock
) -> None:
    for state in ConnectionState:
        before = await brought_to(store, state, f"conn_{state}")
        clock.advance(5)

        again = renewal(scopes=("read",), external_id=before.id)
        after = await store.reconnect(before.id, again, user_id="ada")

        assert after is not None
        assert (after.state, after.reason) == (ConnectionState.ACTIVE, ConnectionReason.CONNECTED)
        assert (after.error, after.scopes, after.version) == (None, ("read",), before.version + 1)
        assert after.updated_at == clock.now()
        assert (await store.get_sealed(before.id, user_id="ada")).sealed == NEW


async def test_another_account_does_not_take_a_connections_place(store: ConnectionStores) -> None:
    await added(store)

    again = await store.reconnect("conn_1", renewal(external_id="athlete 8"), user_id="ada")

    assert again is None
    assert (await store.get_sealed("conn_1", user_id="ada")).sealed == OLD
    # But one that becomes known is noted, and stays so
    await added(store, "conn_2", external_id=None)
    for account in ("athlete 8", None):
        after = await store.reconnect("conn_2", renewal(external_id=account), user_id="ada")
        assert after is not None and after.external_id == "athlete 8"


# ---- renewing ----------------------------------------------------------------------------------


async def test_one_at_a_time_renews(store: ConnectionStores, clock: ManualClock) -> None:
    await added(store)

    async def lease(holder: str, version: int = 1) -> bool:
        return await store.lease("conn_1", version=version, holder=holder, term=TERM)

    assert await lease("w1")
    assert not await lease("w2")
    assert not await lease("w1")
    # Another's release frees nothing; ours does; and so does time.
    await store.release("conn_1", holder="w2")
    assert not await lease("w2")
    await store.release("conn_1", holder="w1")
    assert await lease("w2")
    clock.advance(TERM.total_seconds())
    assert await lease("w3")
    # Nobody leases credentials that are not there any more.
    clock.advance(TERM.total_seconds())
    assert not await lease("w4", version=2)


async def test_of_many_who_ask_at_once_one_gets_the_lease(store: ConnectionStores) -> None:
    await added(store)

    got = await asyncio.gather(
        *(store.lease("conn_1", version=1, holder=f"w{n}", term=TERM) for n in range(20))
    )

    assert sum(got) == 1


async def test_renewed_credentials_end_the_lease_and_raise_the_version(
    store: ConnectionStores,
) -> None:
    await added(store)
    assert await store.lease("conn_1", version=1, holder="w1", term=TERM)

    after = await store.renew("conn_1", renewal(), version=1)

    assert after is not None
    assert (after.version, after.scopes) == (2, ("read", "write"))
    assert after.expires_at == START + timedelta(hours=12)
    assert (await store.get_sealed("conn_1", user_id="ada")).sealed == NEW
    assert await store.lease("conn_1", version=2, holder="w2", term=TERM)


async def test_credentials_that_continue_older_ones_are_turned_away(
    store: ConnectionStores,
) -> None:
    await added(store)
    assert await store.renew("conn_1", renewal(), version=1) is not None

    assert await store.renew("conn_1", renewal(sealed=OLD), version=1) is None
    assert (await store.get_sealed("conn_1", user_id="ada")).sealed == NEW


async def test_a_worker_without_its_lease_still_brings_the_only_good_pair(
    store: ConnectionStores, clock: ManualClock
) -> None:
    # Given a worker whose lease ran out, and another that asked with the same credentials
    connection = await added(store)
    assert await store.lease("conn_1", version=1, holder="slow", term=TERM)
    clock.advance(TERM.total_seconds())
    assert await store.lease("conn_1", version=1, holder="quick", term=TERM)
    # which the provider turned down, because the first had got the new ones
    assert await refused(store, connection) is not None

    # When the first comes back with them
    after = await store.renew("conn_1", renewal(), version=1)

    # Then the connection lives
    assert after is not None
    assert (after.state, after.reason) == (ConnectionState.ACTIVE, ConnectionReason.RENEWED)
    assert (after.error, after.version) == (None, 2)


async def test_renewing_a_paused_connection_leaves_it_paused(store: ConnectionStores) -> None:
    await brought_to(store, ConnectionState.PAUSED)

    after = await store.renew("conn_1", renewal(), version=1)

    assert after is not None
    assert (after.state, after.reason) == (ConnectionState.PAUSED, ConnectionReason.OPERATOR)


async def test_a_refusal_is_noted_once_and_for_these_credentials_only(
    store: ConnectionStores,
) -> None:
    connection = await added(store)

    gone = await refused(store, connection)

    assert gone is not None
    assert (gone.state, gone.reason, gone.error, gone.version) == (
        ConnectionState.NEEDS_REAUTH,
        ConnectionReason.GRANT_REFUSED,
        "invalid_grant",
        1,
    )
    assert await refused(store, connection) is None
    again = await store.reconnect("conn_1", renewal(), user_id="ada")
    assert again is not None
    # One who heard of the refusal late says nothing about the new ones.
    assert await refused(store, connection) is None
    assert (await store.get("conn_1")).state is ConnectionState.ACTIVE


# ---- rotating keys -----------------------------------------------------------------------------


def resealed(connection_id: str = "conn_1") -> ResealedCredentials:
    return ResealedCredentials(connection_id=connection_id, version=1, old_key_id="k1", sealed=NEW)


async def test_what_is_under_other_keys_is_found_in_batches(store: ConnectionStores) -> None:
    for number in range(5):
        sealed = NEW if number == 2 else OLD
        await added(store, f"conn_{number}", external_id=str(number), sealed=sealed)

    first = await store.list_under_other_keys("k2", after="", limit=2)
    rest = await store.list_under_other_keys("k2", after=first[-1].connection.id, limit=9)

    assert [each.connection.id for each in first] == ["conn_0", "conn_1"]
    assert [each.connection.id for each in rest] == ["conn_3", "conn_4"]
    assert first[0].sealed == OLD
    assert await store.count_by_key() == {"k1": 4, "k2": 1}


async def test_resealing_keeps_the_version_and_skips_what_has_changed(
    store: ConnectionStores,
) -> None:
    for number in range(3):
        await added(store, f"conn_{number}", external_id=str(number))
    assert await store.renew("conn_1", renewal(sealed=OLD), version=1) is not None

    done = await store.reseal([resealed(f"conn_{number}") for number in (2, 1, 0)])

    assert done == 2
    assert await store.count_by_key() == {"k1": 1, "k2": 2}
    linked = await store.get_sealed("conn_0", user_id="ada")
    assert (linked.connection.version, linked.sealed) == (1, NEW)


async def test_resealing_during_a_renewal_costs_nobody_the_new_pair_and_twice_is_once(
    store: ConnectionStores,
) -> None:
    await added(store)
    assert await store.lease("conn_1", version=1, holder="w1", term=TERM)

    assert await store.reseal([resealed()]) == 1
    assert await store.reseal([resealed()]) == 0
    assert await store.renew("conn_1", renewal(), version=1) is not None


async def test_every_user_s_connection_to_an_account_is_found(store: ConnectionStores) -> None:
    for number, (user, account) in enumerate([("ada", "7"), ("bob", "7"), ("ada", "8")]):
        await store.add(new(f"conn_{number}", user_id=user, external_id=account))

    found = await store.of_account("strava", "7")

    assert [(each.id, each.user_id) for each in found] == [("conn_0", "ada"), ("conn_1", "bob")]
    assert await store.of_account("fitbit", "7") == []
