"""The fence of jobs: besides the token (`test_leases.py`), the steps must be those of the row."""

import asyncio
from datetime import date

import msgspec

from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.record import Coverage, Record
from headgate.model.states import DayStatus
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests.conformance.chunks import bring
from tests.conformance.databases import on_postgres, under_way
from tests.store_bundles import SqlStores, Stores
from tests.stores import everything, run_one, settled, submit_one, tally, until_one_waits

WORK = ChunkWork(
    records=[Record("record_1", {"text": "late"})],
    coverage=Coverage(day=date(2025, 12, 31), status=DayStatus.HELD, records=1),
)


async def refused(store: Stores, wanted: JobChange) -> None:
    """Apply the change with a chunk's work, and see that neither leaves a trace."""
    before = await everything(store)
    assert await store.jobs.settle(wanted, WORK) is None
    assert await everything(store) == before


async def test_what_was_read_before_the_last_checkpoint_does_not_overwrite_it(
    store: Stores,
) -> None:
    # Given an operator who read the job before its worker's last checkpoint
    running = await run_one(store)
    await settled(store, change.advance(running, tally(cursor="second"), {}))

    # When the operator's change comes, then it must be made anew
    await refused(store, change.ask_pause(running))
    assert (await store.jobs.get(running.id)).cursor == "second"


async def test_the_steps_must_be_the_rows(store: Stores) -> None:
    running = await bring(store, await run_one(store))

    for by in (-1, 1):
        forged = msgspec.structs.replace(running, steps=running.steps + by)
        await refused(store, change.advance(forged, tally(), {}))

    # With those of the row the same work goes through
    assert await store.jobs.settle(change.advance(running, tally(), {}), WORK) is not None
    rows = await everything(store)
    assert len(rows["records"]) == len(rows["coverage"]) == 1


async def test_of_two_operators_only_the_first_takes_effect(store: Stores) -> None:
    # Given two who read the same pending job
    pending = await submit_one(store)
    await settled(store, change.cancel(pending))

    # When the second acts on what is no longer so, then nothing is written
    await refused(store, change.cancel(pending))
    await refused(store, change.pause(pending))


@on_postgres
async def test_a_change_that_meets_another_under_way_waits_for_it_and_loses(
    sql_store: SqlStores, database: PostgresDatabase, store_url: str
) -> None:
    # Given a job that is taken from its worker, in a transaction that has not ended yet
    running = await run_one(sql_store)
    moment, taken = database.moment(), (change.release(running), None)

    # When the worker settles its chunk meanwhile
    async with under_way(database, lambda tx: sql_store.jobs.settle_in(tx, moment, [taken])):
        settling = asyncio.create_task(
            sql_store.jobs.settle(change.advance(running, tally(), {}), WORK)
        )
        await until_one_waits(store_url)

    # Then it finds its claim lost, and the chunk leaves no trace
    assert await settling is None
    rows = await everything(sql_store)
    assert rows["records"] == rows["coverage"] == []
