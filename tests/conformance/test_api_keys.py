"""API keys on every database: kept, listed, revoked."""

from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.model.api_key import ApiKey, Role
from headgate.ports.people.api_keys import ApiKeyStore, NewApiKey
from tests.store_bundles import Stores
from tests.stores import START


@pytest.fixture
def keys(any_stores: Stores) -> ApiKeyStore:
    return any_stores.api_keys


def new_key(key_id: str = "key_1", **fields: Any) -> NewApiKey:
    given = {"hash": "ab" * 32, "name": "phone", "user_id": "ada", "role": Role.USER}
    return NewApiKey(id=key_id, **{**given, **fields})


async def test_a_key_is_kept_as_it_was_given(keys: ApiKeyStore) -> None:
    made = await keys.add(new_key())

    assert made == ApiKey(id="key_1", name="phone", user_id="ada", role=Role.USER, created_at=START)
    kept = await keys.find("key_1")
    assert kept is not None and (kept.key, kept.hash) == (made, "ab" * 32)
    assert await keys.find("key_2") is None


async def test_only_an_admins_key_is_nobodys_own(keys: ApiKeyStore) -> None:
    await keys.add(new_key("key_1", role=Role.ADMIN, user_id=None))

    for role, owner in ((Role.ADMIN, "ada"), (Role.USER, None), (Role.READER, None)):
        with pytest.raises(StoreError, match="api_keys_owner"):
            await keys.add(new_key("key_2", role=role, user_id=owner))
    assert [key.id for key in await keys.list_keys(limit=10)] == ["key_1"]


async def test_a_key_is_stored_once(keys: ApiKeyStore) -> None:
    await keys.add(new_key())

    with pytest.raises(StoreError):
        await keys.add(new_key(hash="cd" * 32))

    kept = await keys.find("key_1")
    assert kept is not None and kept.hash == "ab" * 32


async def test_keys_are_listed_in_pages(keys: ApiKeyStore) -> None:
    for number in range(5):
        await keys.add(new_key(f"key_{number}"))

    first = await keys.list_keys(limit=3)
    rest = await keys.list_keys(limit=3, after=first[-1].id)

    assert [key.id for key in (*first, *rest)] == [f"key_{number}" for number in range(5)]


async def test_a_key_is_revoked_once_and_says_when(keys: ApiKeyStore, clock: ManualClock) -> None:
    await keys.add(new_key())

    assert (await keys.revoke("key_1")).revoked_at == START
    clock.advance(60)
    assert (await keys.revoke("key_1")).revoked_at == START
    kept = await keys.find("key_1")
    assert kept is not None and kept.key.revoked_at == START
    with pytest.raises(NotFound):
        await keys.revoke("key_2")
