"""Repeated requests on every database: owners, one turn at a time, bounded memory."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from headgate.base.clock import ManualClock
from headgate.ports.people.idempotency import (
    IdempotencyStore,
    Known,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.store.sql.engine.database import Database
from headgate.store.sql.people.idempotency import PRUNE_MAX, SqlIdempotency
from headgate.store.sql.tables import idempotent_requests
from tests.conformance.databases import others
from tests.store_bundles import Stores
from tests.stores import MakeDatabase

LEASE = timedelta(seconds=60)
DAY = timedelta(hours=24)
DONE = StoredAnswer(status=202, headers={"location": "/v1/jobs/j"}, body=b'{"id":"j\xc3\xa9"}')


@pytest.fixture
def store(any_stores: Stores) -> IdempotencyStore:
    return any_stores.idempotency


async def begun(
    store: IdempotencyStore, key: str = "k", request: str = "r", owner: str = "o"
) -> RequestStarted:
    known = await store.begin(owner, key, request, lease=LEASE)
    assert isinstance(known, RequestStarted)
    return known


async def count(database: Database) -> int:
    query = select(func.count()).select_from(idempotent_requests)
    return await database.read(lambda tx: tx.execute(query).scalar_one())


async def test_a_request_is_begun_once_and_then_answered_alike(
    store: IdempotencyStore, clock: ManualClock
) -> None:
    first = await begun(store)
    assert isinstance(await store.begin("o", "k", "r", lease=LEASE), RequestInProgress)

    assert await store.finish("o", "k", first, DONE, keep=DAY)

    clock.advance(DAY.total_seconds() - 1)
    assert await store.begin("o", "k", "r", lease=LEASE) == DONE
    clock.advance(1)
    await begun(store)


async def test_another_request_under_the_same_key_is_told_apart(store: IdempotencyStore) -> None:
    first = await begun(store)

    # While the first is under way, and after it.
    assert isinstance(await store.begin("o", "k", "other", lease=LEASE), RequestMismatch)
    await store.finish("o", "k", first, DONE, keep=DAY)
    assert isinstance(await store.begin("o", "k", "other", lease=LEASE), RequestMismatch)


async def test_anothers_keys_are_invisible(store: IdempotencyStore) -> None:
    first = await begun(store, owner="key_1")
    await store.finish("key_1", "k", first, DONE, keep=DAY)

    await begun(store, owner="key_2", request="other")


async def test_of_many_processes_at_once_one_begins(
    make_database: MakeDatabase, database: Database
) -> None:
    async with others(make_database, 4) as several:
        stores = [SqlIdempotency(each) for each in several * 2]
        known = await asyncio.gather(*(each.begin("o", "k", "r", lease=LEASE) for each in stores))

    assert_one_began(known)


async def test_of_many_at_once_one_begins(store: IdempotencyStore) -> None:
    known = await asyncio.gather(*(store.begin("o", "k", "r", lease=LEASE) for _ in range(8)))

    assert_one_began(known)


def assert_one_began(known: Sequence[Known]) -> None:
    assert sorted(type(each).__name__ for each in known) == ["RequestInProgress"] * 7 + [
        "RequestStarted"
    ]


async def test_a_request_that_died_is_begun_again_after_its_lease(
    store: IdempotencyStore, clock: ManualClock
) -> None:
    died = await begun(store)
    clock.advance(59)
    assert isinstance(await store.begin("o", "k", "r", lease=LEASE), RequestInProgress)
    clock.advance(1)

    again = await begun(store)

    # And whoever was slow and not dead has lost its turn: the second's answer is the answer.
    assert not await store.finish("o", "k", died, DONE, keep=DAY)
    await store.abandon("o", "k", died)
    assert isinstance(await store.begin("o", "k", "r", lease=LEASE), RequestInProgress)
    assert await store.finish("o", "k", again, DONE, keep=DAY)
    assert await store.begin("o", "k", "r", lease=LEASE) == DONE


async def test_an_abandoned_request_is_begun_again_at_once_and_an_answer_is_not_abandoned(
    store: IdempotencyStore,
) -> None:
    await store.abandon("o", "k", await begun(store))
    again = await begun(store, request="even another")

    await store.finish("o", "k", again, DONE, keep=DAY)
    await store.abandon("o", "k", again)
    assert await store.begin("o", "k", "even another", lease=LEASE) == DONE


async def test_what_ran_out_is_forgotten_in_passing_a_little_at_a_time(
    database: Database, clock: ManualClock
) -> None:
    store = SqlIdempotency(database)
    for number in range(PRUNE_MAX + 5):
        await begun(store, key=f"old {number}")
    clock.advance(LEASE.total_seconds())

    await begun(store, key="new 1")
    assert await count(database) == 5 + 1
    await begun(store, key="new 2")
    assert await count(database) == 2
