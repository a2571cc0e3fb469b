"""Deletions on both SQL databases: what a provider deleted stays deleted, whoever is reading it."""

import asyncio
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.model import change as job_change
from headgate.model import item as change
from headgate.model.job import Job
from headgate.model.record import Record
from headgate.model.states import ItemState
from headgate.ports.items import Deletion, RegisterResult
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.items import rows as item_rows
from headgate.store.sql.items.retention import TOMBSTONES_KEPT
from headgate.store.sql.items.store import SqlItems
from tests import stores
from tests.conformance.chunks import bring
from tests.conformance.databases import on_postgres, under_way
from tests.conformance.test_connections import added
from tests.conformance.test_items import (
    DOCUMENT,
    claim_one,
    count_rows,
    ids,
    new_item,
    registered,
    settled,
)
from tests.store_bundles import SqlStores
from tests.stores import new_job, run_one, tally, until_one_waits

ONE = Record("1", {"name": "Morning Run"})
TWO = Record("2", {"name": "Evening Run"})


def deletion(*item_ids: str, **fields: Any) -> Deletion:
    return Deletion(**{"connection_id": "connection_1", "item_ids": item_ids, **fields})


def deletion_of_record(job: Job, key: str) -> Deletion:
    return deletion(
        connection_id=job.connection_id, stored_as=[job.sync], keys=[key], syncs=[job.sync]
    )


async def keys(store: SqlStores, job: Job) -> list[str]:
    found = await store.records.list_records(job.sync, job.connection_id, limit=100)
    return [record.key for record in found]


# ---- items -------------------------------------------------------------------------------------


async def test_items_are_deleted_by_their_ids_with_what_was_fetched_for_them(
    items: SqlItems,
) -> None:
    item = await claim_one(items)
    await settled(items, change.succeed(item), DOCUMENT)
    known = [item.id, *await registered(items, 2)]
    [document] = await items.documents_of(known)
    assert (document.item_id, document.attributes) == (item.id, DOCUMENT.attributes)

    assert await items.delete(deletion(item.id, "nobody")) == 1

    assert await items.documents_of(known) == []
    assert await items.delete(deletion(*known)) == 2
    assert await items.delete(deletion()) == 0


async def test_a_deleted_item_is_not_registered_again_and_others_are(items: SqlItems) -> None:
    # Given an item that was deleted, and one that was deleted before anybody knew of it
    first, unknown, other = new_item(), new_item(), new_item()
    await items.register([first])
    assert await items.delete(deletion(first.id, unknown.id)) == 1

    # When workers bring what they had read
    told = await items.register([first, unknown, other])

    # Then only the other is there
    assert told == RegisterResult(1, 0)
    assert ids(await items.list_items(None, limit=9)) == [other.id]


async def test_a_claimed_item_that_is_deleted_is_lost_to_its_worker(items: SqlItems) -> None:
    item = await claim_one(items)

    await items.delete(deletion(item.id))

    assert await items.settle(change.succeed(item), DOCUMENT) is None
    assert await count_rows(items) == (0, 0)


async def test_only_items_of_the_connection_are_deleted(items: SqlItems) -> None:
    [own] = await registered(items, 1)
    [other] = await registered(items, 1, connection_id="connection_2")

    assert await items.delete(deletion(own, other)) == 1

    assert (await items.get(other)).state is ItemState.PENDING
    # An id is another thing for another connection.
    assert await items.register([new_item(id=own, connection_id="connection_2")]) == (
        RegisterResult(1, 0)
    )


async def test_a_tombstone_serves_its_time_from_the_last_deletion_on(
    items: SqlItems, clock: ManualClock
) -> None:
    # Given an item that was deleted twice, an hour apart
    new = new_item()
    await items.delete(deletion(new.id))
    clock.advance(3600)
    await items.delete(deletion(new.id))

    # When its time is not quite over
    clock.advance((TOMBSTONES_KEPT - timedelta(seconds=1)).total_seconds())
    await items.forget_removed(limit=9)

    # Then it is not registered; and afterwards, if its provider still has it, it is
    assert await items.register([new]) == RegisterResult(0, 0)
    clock.advance(2)
    await items.forget_removed(limit=9)
    assert await items.register([new]) == RegisterResult(1, 0)
    assert (await items.database.read(stores.contents))["tombstones"] == []


async def test_tombstones_go_with_their_connection(items: SqlItems, database: Database) -> None:
    connections = SqlConnections(database)
    await added(connections)
    await items.delete(deletion("conn_1-7", connection_id="conn_1"))
    await items.delete(deletion("conn_2-7", connection_id="conn_2"))

    await connections.remove("conn_1")

    [(connection_id, *_)] = (await database.read(stores.contents))["tombstones"]
    assert connection_id == "conn_2"
    # What is left of the removed one keeps its items out.
    late = new_item(id="conn_1-7", connection_id="conn_1")
    assert await items.register([late]) == RegisterResult(0, 0)


# ---- records -----------------------------------------------------------------------------------


async def test_records_are_deleted_with_the_items_and_stay_deleted(
    sql_store: SqlStores, items: SqlItems, clock: ManualClock
) -> None:
    # Given records of a job, and one of another connection under the same key
    job = await bring(sql_store, await run_one(sql_store), ONE, TWO)
    other = await bring(sql_store, await run_one(sql_store, connection_id="connection_9"), ONE)
    [item_id] = await registered(items, 1, connection_id=job.connection_id)

    # When one is deleted with its item, while the job brings both again
    assert await items.delete(replace(deletion_of_record(job, "1"), item_ids=[item_id])) == 2
    changed = [Record(each.key, {"name": "changed"}) for each in (ONE, TWO)]
    job = await bring(sql_store, job, *changed)

    # Then it stays deleted, and only what was stored is counted
    assert await keys(sql_store, job) == ["2"]
    assert (job.summary.inserted, job.summary.updated) == (0, 1)
    assert await keys(sql_store, other) == ["1"]
    # And when the tombstone has served its time, the provider's word counts again
    clock.advance(TOMBSTONES_KEPT.total_seconds() + 1)
    await items.forget_removed(limit=9)
    assert await keys(sql_store, await bring(sql_store, job, ONE)) == ["1", "2"]


async def test_a_deleted_record_that_its_provider_reports_as_gone_stays_deleted(
    sql_store: SqlStores, items: SqlItems
) -> None:
    # Given a record that was deleted, and then a chunk that says that it is gone at its provider
    job = await bring(sql_store, await run_one(sql_store), ONE, TWO)
    assert await items.delete(deletion_of_record(job, "1")) == 1
    job = await bring(sql_store, job, removed=["1", "2", "never there"])
    assert await keys(sql_store, job) == []

    # When a worker brings what it had read before
    job = await bring(sql_store, job, ONE, TWO)

    # Then only what nobody has deleted is stored
    assert await keys(sql_store, job) == ["2"]


# ---- at the same moment ------------------------------------------------------------------------
# SQLite has one writer at a time. On Postgres both may begin before either has ended.


@on_postgres
async def test_a_deletion_takes_what_is_being_registered(
    items: SqlItems, database: PostgresDatabase, store_url: str
) -> None:
    new = new_item()
    moment = database.moment()
    async with under_way(database, lambda tx: item_rows.register(tx, moment, [new])):
        deleting = asyncio.create_task(items.delete(deletion(new.id)))
        await until_one_waits(store_url)

    assert await deleting == 1
    assert await items.list_items(None, limit=9) == []


@on_postgres
async def test_what_is_being_deleted_is_not_registered(
    items: SqlItems, database: PostgresDatabase, store_url: str
) -> None:
    new = new_item()
    moment, gone = database.moment(), deletion(new.id)
    async with under_way(database, lambda tx: item_rows.delete_for_good(tx, moment, gone)):
        registering = asyncio.create_task(items.register([new]))
        await until_one_waits(store_url)

    assert await registering == RegisterResult(0, 0)


@on_postgres
async def test_a_deletion_takes_the_records_of_a_chunk_that_is_being_committed(
    sql_store: SqlStores, items: SqlItems, database: PostgresDatabase, store_url: str
) -> None:
    job = await run_one(sql_store)
    wanted = job_change.advance(job, tally(), {}), ChunkWork(records=[ONE])
    moment = database.moment()
    async with under_way(database, lambda tx: sql_store.jobs.settle_in(tx, moment, [wanted])):
        deleting = asyncio.create_task(items.delete(deletion_of_record(job, "1")))
        await until_one_waits(store_url)

    assert await deleting == 1
    assert await keys(sql_store, job) == []


@on_postgres
async def test_deletions_do_not_hold_up_a_job_that_waits_for_a_worker(
    sql_store: SqlStores, items: SqlItems, database: PostgresDatabase
) -> None:
    [job] = await stores.submit_all(sql_store, [new_job()])
    moment, gone = database.moment(), deletion_of_record(job, "1")

    async with under_way(database, lambda tx: item_rows.delete_for_good(tx, moment, gone)):
        claimed = await stores.claim_ids(sql_store, 1)

    assert claimed == [job.id]
