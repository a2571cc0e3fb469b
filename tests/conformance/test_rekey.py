"""Rotating keys on every database: everything ends under the newest, whatever goes on meanwhile."""

import asyncio
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from headgate.flow.connections.rekey import BATCH, rekey
from headgate.flow.connections.sealing import seal
from headgate.ports.backend import ConnectionStores
from headgate.ports.connections.auth import Vault
from headgate.ports.connections.store import Renewal
from tests.connecting import fill_connections, named_tokens, opened_tokens, vault
from tests.store_bundles import Stores
from tests.stores import START


@pytest.fixture
def store(any_stores: Stores) -> ConnectionStores:
    return any_stores.connections


async def test_everything_is_put_under_the_newest_key_and_the_old_one_can_go(
    store: ConnectionStores,
) -> None:
    # Given connections under an old key and some under the new, more than fit one batch
    old = await fill_connections(store, BATCH + 5, vault("k1"))
    told: list[tuple[int, int]] = []

    # When keys are rotated
    done = await rekey(
        store, vault("k2", "k1"), progress=lambda at, total: told.append((at, total))
    )

    # Then the new key alone reads everything
    assert (done.resealed, done.unreadable, done.left) == (BATCH + 5, 0, 0)
    assert done.by_key == {"k2": BATCH + 5}
    assert told == [(0, 105), (100, 105), (105, 105)]
    for each in old[::7]:
        expected = (f"access of {each}", f"refresh of {each}")
        assert await opened_tokens(store, each, vault("k2")) == expected
    # And once more is nothing to do.
    assert (await rekey(store, vault("k2"))).resealed == 0


async def test_two_rotations_at_once_do_the_work_of_one(store: ConnectionStores) -> None:
    await fill_connections(store, 12, vault("k1"))

    both = await asyncio.gather(*(rekey(store, vault("k2", "k1")) for _ in range(2)))

    assert sum(done.resealed for done in both) == 12
    assert {done.left for done in both} == {0}


async def test_workers_that_renew_meanwhile_lose_nothing(store: ConnectionStores) -> None:
    # Given workers that renew tokens all the time: some know the new key, some only the old one
    ids = await fill_connections(store, 10, vault("k1"))
    newest: dict[str, str] = {}
    rotated = asyncio.Event()

    async def work(number: int, by: Vault) -> int:
        draw, renewed = Random(number), 0
        while not (rotated.is_set() and renewed >= 8):
            each = draw.choice(ids)
            linked = await store.get_sealed(each, user_id="ada")
            version = linked.connection.version
            if not await store.lease(
                each, version=version, holder=str(number), term=timedelta(seconds=60)
            ):
                continue
            name = f"{each} by {number} at {version}"
            fresh = seal(by, named_tokens(name), each, user_id="ada", source="strava")
            after = await store.renew(
                each, Renewal(sealed=fresh, expires_at=START), version=version
            )
            # Under the lease nobody else renews, and rotation must not be in the way.
            assert after is not None
            newest[each] = name
            renewed += 1
        return renewed

    async def rotate() -> Any:
        try:
            return await rekey(store, vault("k2", "k1"))
        finally:
            rotated.set()

    # When keys are rotated under their hands
    both = vault("k2", "k1")
    workers = [work(number, both) for number in range(3)]
    await asyncio.gather(rotate(), *workers, work(9, vault("k1")))

    # Then every connection holds the newest tokens it was given
    for each in ids:
        name = newest.get(each, each)
        expected = (f"access of {name}", f"refresh of {name}")
        assert await opened_tokens(store, each, both) == expected
    # And once no worker writes with the old key any more, a last run leaves nothing under it
    assert (await rekey(store, both)).left == 0
