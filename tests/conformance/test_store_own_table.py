"""A system's own table takes the records of a sync in the transaction that commits the chunk."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Column, Connection, MetaData, Table, Text, select

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Job
from headgate.model.record import Record, RecordCounts
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.records.table import TableBatch
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.statements import insert_into
from tests.conformance.chunks import bring, counts
from tests.conformance.databases import shared_fixture
from tests.store_bundles import SqlStores
from tests.stores import claim_one, run_one, tally

metadata = MetaData()
places = Table(
    "places",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),
)


class Places:
    """A table of a system's: one row for each place of a user."""

    def __init__(self) -> None:
        self.batches: list[TableBatch] = []

    def store(self, tx: Connection, batch: TableBatch) -> RecordCounts:
        self.batches.append(batch)
        known = _names(tx)
        for each in batch.records:
            row: dict[str, Any] = {"user_id": batch.user_id, "key": each.key, **each.data}
            insert = insert_into(tx.dialect, places).values(row)
            tx.execute(
                insert.on_conflict_do_update(
                    index_elements=places.primary_key.columns, set_={"name": insert.excluded.name}
                )
            )
        fresh = sum(each.key not in known for each in batch.records)
        return RecordCounts(inserted=fresh, updated=len(batch.records) - fresh)


@shared_fixture()
async def table(database: Database) -> AsyncIterator[Places]:
    """The table, empty."""
    await database.migrate(metadata.create_all)
    yield Places()
    await database.migrate(metadata.drop_all)


def _names(tx: Connection) -> dict[str, str]:
    return {row.key: row.name for row in tx.execute(select(places.c.key, places.c.name))}


def named(**names: str) -> list[Record]:
    return [Record(key, {"name": name}) for key, name in names.items()]


async def test_a_chunk_s_records_are_in_the_table_with_its_cursor(
    sql_store: SqlStores, database: Database, table: Places, clock: ManualClock
) -> None:
    job = await run_one(sql_store)

    after = await bring(sql_store, job, table=table, table_records=named(a="Pier", b="Park"))

    assert (after.cursor, counts(after)) == ("next", (2, 0, 0))
    assert await sql_store.jobs.get(job.id) == after
    assert await database.read(_names) == {"a": "Pier", "b": "Park"}
    assert await sql_store.records.list_records(job.sync, job.connection_id, limit=10) == []
    [batch] = table.batches
    assert (batch.user_id, batch.connection_id) == (job.user_id, job.connection_id)
    assert (batch.sync, batch.job_id, batch.at) == (job.sync, job.id, clock.now())


async def test_what_the_table_counts_adds_to_what_headgate_s_own_table_counts(
    sql_store: SqlStores, table: Places
) -> None:
    job = await run_one(sql_store)
    kept = Record("kept", {})

    after = await bring(sql_store, job, kept, table=table, table_records=named(a="Pier"))

    assert counts(after) == (2, 0, 0)


async def test_a_key_that_comes_twice_reaches_the_table_once_as_it_was_last(
    sql_store: SqlStores, database: Database, table: Places
) -> None:
    job = await run_one(sql_store)
    twice = [*named(a="old", b="b"), *named(a="new")]

    await bring(sql_store, job, table=table, table_records=twice)

    assert [record.key for record in table.batches[0].records] == ["a", "b"]
    assert await database.read(_names) == {"a": "new", "b": "b"}
    # And without records it is not asked
    await bring(sql_store, await run_one(sql_store), table=table)
    assert len(table.batches) == 1


async def test_a_worker_that_lost_its_claim_writes_nothing_into_the_table(
    sql_store: SqlStores, database: Database, table: Places, clock: ManualClock
) -> None:
    # Given a job that another worker has by now
    job = await run_one(sql_store)
    await sql_store.jobs.settle(change.rescue(job, after=timedelta(0)))
    assert (await claim_one(sql_store)).token > job.token

    # When the first one comes back with its chunk
    late = await sql_store.jobs.settle(
        change.advance(job, tally(), {}), ChunkWork(table=table, table_records=named(a="Pier"))
    )

    # Then neither the cursor nor the table has anything of it
    assert late is None
    assert await database.read(_names) == {}


class Broken(Places):
    """Writes its rows, and then fails."""

    def store(self, tx: Connection, batch: TableBatch) -> RecordCounts:
        super().store(tx, batch)
        raise ValueError("this table is broken")


async def test_a_table_that_fails_leaves_neither_rows_nor_a_cursor(
    sql_store: SqlStores, database: Database, table: Places
) -> None:
    job = await run_one(sql_store)

    with pytest.raises(ValueError, match="broken"):
        await bring(sql_store, job, table=Broken(), table_records=named(a="Pier"))

    assert await database.read(_names) == {}
    assert (await sql_store.jobs.get(job.id)).cursor == job.cursor


async def test_others_who_settle_at_the_same_moment_are_not_held_up_by_it(
    sql_store: SqlStores, database: Database, table: Places
) -> None:
    mine, other = await run_one(sql_store), await run_one(sql_store)

    failed, after = await asyncio.gather(
        bring(sql_store, mine, table=Broken(), table_records=named(a="Pier")),
        bring(sql_store, other, table=table, table_records=named(b="Park")),
        return_exceptions=True,
    )

    assert isinstance(failed, ValueError)
    assert isinstance(after, Job)
    assert after.cursor == "next"
    assert await database.read(_names) == {"b": "Park"}
