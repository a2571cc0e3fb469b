"""API keys and repeated requests on both databases: owners, one turn at a time, bounded memory."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.model.access import ApiKey, Role
from headgate.ports.access import Answered, Begun, Changed, NewApiKey, UnderWay
from headgate.store.sql.access import PRUNE_MAX
from headgate.store.sql.access_store import SqlAccess
from headgate.store.sql.database import Database
from headgate.store.sql.tables import idempotent_requests
from tests.stores import START, MakeDatabase

LEASE = timedelta(seconds=60)
DAY = timedelta(hours=24)
DONE = Answered(status=202, headers={"location": "/v1/jobs/j"}, body=b'{"id":"j\xc3\xa9"}')


@pytest.fixture
def access(database: Database) -> SqlAccess:
    return SqlAccess(database)


def new_key(key_id: str = "key_1", **fields: Any) -> NewApiKey:
    given = {"hash": "ab" * 32, "name": "phone", "user_id": "ada", "role": Role.USER}
    return NewApiKey(id=key_id, **{**given, **fields})


async def begun(access: SqlAccess, key: str = "k", request: str = "r", owner: str = "o") -> Begun:
    known = await access.begin(owner, key, request, lease=LEASE)
    assert isinstance(known, Begun)
    return known


async def count(database: Database) -> int:
    query = select(func.count()).select_from(idempotent_requests)
    return await database.read(lambda tx: tx.execute(query).scalar_one())


# ---- keys --------------------------------------------------------------------------------------


async def test_a_key_is_kept_as_it_was_given(access: SqlAccess) -> None:
    made = await access.add_key(new_key())

    assert made == ApiKey(id="key_1", name="phone", user_id="ada", role=Role.USER, created_at=START)
    kept = await access.find_key("key_1")
    assert kept is not None and (kept.key, kept.hash) == (made, "ab" * 32)
    assert await access.find_key("key_2") is None


async def test_only_an_admins_key_is_nobodys_own(access: SqlAccess) -> None:
    await access.add_key(new_key("key_1", role=Role.ADMIN, user_id=None))

    for role, owner in ((Role.ADMIN, "ada"), (Role.USER, None), (Role.READER, None)):
        with pytest.raises(StoreError, match="ck_api_keys_owner"):
            await access.add_key(new_key("key_2", role=role, user_id=owner))


async def test_keys_are_listed_in_pages(access: SqlAccess) -> None:
    for number in range(5):
        await access.add_key(new_key(f"key_{number}"))

    first = await access.list_keys(limit=3)
    rest = await access.list_keys(limit=3, after=first[-1].id)

    assert [key.id for key in (*first, *rest)] == [f"key_{number}" for number in range(5)]


async def test_a_key_is_revoked_once_and_says_when(access: SqlAccess, clock: ManualClock) -> None:
    await access.add_key(new_key())

    assert (await access.revoke_key("key_1")).revoked_at == START
    clock.advance(60)
    assert (await access.revoke_key("key_1")).revoked_at == START
    kept = await access.find_key("key_1")
    assert kept is not None and kept.key.revoked_at == START
    with pytest.raises(NotFound):
        await access.revoke_key("key_2")


# ---- requests that may come again --------------------------------------------------------------


async def test_a_request_is_begun_once_and_then_answered_alike(
    access: SqlAccess, clock: ManualClock
) -> None:
    first = await begun(access)
    assert isinstance(await access.begin("o", "k", "r", lease=LEASE), UnderWay)

    assert await access.finish("o", "k", first, DONE, keep=DAY)

    clock.advance(DAY.total_seconds() - 1)
    assert await access.begin("o", "k", "r", lease=LEASE) == DONE
    clock.advance(1)
    await begun(access)


async def test_another_request_under_the_same_key_is_told_apart(access: SqlAccess) -> None:
    first = await begun(access)

    # While the first is under way, and after it.
    assert isinstance(await access.begin("o", "k", "other", lease=LEASE), Changed)
    await access.finish("o", "k", first, DONE, keep=DAY)
    assert isinstance(await access.begin("o", "k", "other", lease=LEASE), Changed)


async def test_anothers_keys_are_invisible(access: SqlAccess) -> None:
    first = await begun(access, owner="key_1")
    await access.finish("key_1", "k", first, DONE, keep=DAY)

    await begun(access, owner="key_2", request="other")


async def test_of_many_at_once_one_begins(make_database: MakeDatabase, database: Database) -> None:
    several = [make_database() for _ in range(4)]
    for each in several:
        await each.open()
    try:
        known = await asyncio.gather(
            *(SqlAccess(each).begin("o", "k", "r", lease=LEASE) for each in several for _ in "12")
        )
    finally:
        for each in several:
            await each.close()

    assert sorted(type(each).__name__ for each in known) == ["Begun"] + ["UnderWay"] * 7


async def test_a_request_that_died_is_begun_again_after_its_lease(
    access: SqlAccess, clock: ManualClock
) -> None:
    died = await begun(access)
    clock.advance(59)
    assert isinstance(await access.begin("o", "k", "r", lease=LEASE), UnderWay)
    clock.advance(1)

    again = await begun(access)

    # And whoever was slow and not dead has lost its turn: the second's answer is the answer.
    assert not await access.finish("o", "k", died, DONE, keep=DAY)
    await access.abandon("o", "k", died)
    assert isinstance(await access.begin("o", "k", "r", lease=LEASE), UnderWay)
    assert await access.finish("o", "k", again, DONE, keep=DAY)
    assert await access.begin("o", "k", "r", lease=LEASE) == DONE


async def test_an_abandoned_request_is_begun_again_at_once(access: SqlAccess) -> None:
    first = await begun(access)

    await access.abandon("o", "k", first)

    await begun(access, request="even another")


async def test_an_answer_is_not_abandoned(access: SqlAccess) -> None:
    first = await begun(access)
    await access.finish("o", "k", first, DONE, keep=DAY)

    await access.abandon("o", "k", first)

    assert await access.begin("o", "k", "r", lease=LEASE) == DONE


async def test_what_ran_out_is_forgotten_in_passing_a_little_at_a_time(
    access: SqlAccess, database: Database, clock: ManualClock
) -> None:
    for number in range(PRUNE_MAX + 5):
        await begun(access, key=f"old {number}")
    clock.advance(LEASE.total_seconds())

    await begun(access, key="new 1")
    assert await count(database) == 5 + 1
    await begun(access, key="new 2")
    assert await count(database) == 2
