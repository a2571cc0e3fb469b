"""Receipts: a record is claimed by one job at a time, and what became of it is remembered."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from sqlalchemy.util import await_only

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Lane, Reason
from headgate.model.lease import AT_ONCE
from headgate.model.record import Receipt, Record
from headgate.model.states import ReceiptState
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.statements import ROWS_MAX
from headgate.store.sql.records import receipts
from tests.conformance.chunks import bring, counts
from tests.conformance.databases import others
from tests.store_bundles import SqlStores, Stores
from tests.stores import (
    LEASE,
    SYNCS,
    MakeDatabase,
    claim_ids,
    claim_one,
    everything,
    is_sql,
    new_job,
    opened,
    run_one,
    settled,
    tally,
    until_one_waits,
)

NAME = "notes"
CLAIMED, TAKEN, REFUSED = ReceiptState.CLAIMED, ReceiptState.TAKEN, ReceiptState.REFUSED


async def two_jobs(store: Stores, **fields: object) -> tuple[Job, Job]:
    """A backfill and a live job of one connection, both running."""
    both = {"connection_id": "conn_1", **fields}
    slow = await run_one(store, sync="notes", lane=Lane.COLD, **both)
    return slow, await run_one(store, sync="other", lane=Lane.HOT, **both)


async def deliver(store: Stores, job: Job, keys: Sequence[str], refused: Sequence[str] = ()) -> Job:
    """Settle a chunk whose records went to the destination."""
    receipts = [Receipt(key, TAKEN) for key in keys] + [Receipt(key, REFUSED) for key in refused]
    return await bring(store, job, stored_as=NAME, receipts=receipts)


async def test_a_claim_keeps_another_job_away_until_it_is_settled(store: Stores) -> None:
    slow, live = await two_jobs(store)

    # Given records that one job is about to send
    assert await store.receipts.claim_records(slow, NAME, ["a", "b"]) == {}

    # Then another gets none of them, and sees that they are claimed
    assert await store.receipts.claim_records(live, NAME, ["b", "c"]) == {"b": CLAIMED}
    assert await store.receipts.find_states(live, NAME, ["a", "b", "c"]) == {
        "a": CLAIMED,
        "b": CLAIMED,
    }

    # When they are delivered, then the other skips them and goes on with the rest
    await deliver(store, slow, ["a", "b"])
    assert await store.receipts.find_states(live, NAME, ["a", "b", "c"]) == {"a": TAKEN, "b": TAKEN}
    assert await store.receipts.claim_records(live, NAME, ["b", "c"]) == {"b": TAKEN}


async def test_a_job_may_claim_its_own_records_again(store: Stores) -> None:
    slow, _ = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])

    assert await store.receipts.find_states(slow, NAME, ["a"]) == {}
    assert await store.receipts.claim_records(slow, NAME, ["a", "b"]) == {}
    # No records need no claim
    assert (
        await store.receipts.find_states(slow, NAME, [])
        == await store.receipts.claim_records(slow, NAME, [])
        == {}
    )


LEAVES: dict[str, Callable[[Job], JobChange]] = {
    "advance": lambda job: change.advance(job, tally(), {}),
    "rest": lambda job: change.rest(job, tally(), {}),
    "retry": lambda job: change.retry(job, after=LEASE, error="down", recent_errors=()),
    "defer": lambda job: change.defer(job, after=LEASE, reason=Reason.RATE_LIMITED, note="later"),
    "fail": lambda job: change.fail(job, reason=Reason.REFUSED, error="no"),
    "succeed": lambda job: change.succeed(job, tally(), {}),
}


async def test_a_claim_is_void_once_its_job_has_left_the_chunk(store: Stores) -> None:
    for name, leave in LEAVES.items():
        # Given a claim whose job ended its chunk without delivering the record
        slow, live = await two_jobs(store, connection_id=name)
        await store.receipts.claim_records(slow, NAME, ["a"])
        await settled(store, leave(slow))

        # Then nobody is in the way
        assert await store.receipts.find_states(live, NAME, ["a"]) == {}, name
        assert await store.receipts.claim_records(live, NAME, ["a"]) == {}, name
        # And nothing waits when the next begins
        await claim_ids(store, 1)


async def test_a_claim_of_a_lost_worker_is_void_and_the_worker_gets_no_other(
    store: Stores, clock: ManualClock
) -> None:
    # Given a worker that stalled past its lease, and another that has its job now
    slow, live = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])
    clock.advance(LEASE.total_seconds() + 1)
    [lost] = [job for job in await store.jobs.list_expired(limit=10) if job.id == slow.id]
    await settled(store, change.rescue(lost, after=AT_ONCE))
    again = await claim_one(store, Lane.COLD, worker="worker_2")

    # Then the new claim of the job gets the record
    assert await store.receipts.claim_records(again, NAME, ["a"]) == {}
    # And the stalled worker gets none, claimed or not
    assert await store.receipts.claim_records(slow, NAME, ["a", "b"]) == {
        "a": CLAIMED,
        "b": CLAIMED,
    }
    assert await store.receipts.find_states(live, NAME, ["a", "b"]) == {"a": CLAIMED}


async def test_a_job_that_is_being_cancelled_still_has_its_claims(store: Stores) -> None:
    slow, live = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])
    await settled(store, change.ask_cancel(slow, deadline=LEASE))

    assert await store.receipts.claim_records(live, NAME, ["a"]) == {"a": CLAIMED}


async def test_what_was_refused_is_known_and_may_be_sent_again(store: Stores) -> None:
    slow, live = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a", "b"])
    await deliver(store, slow, ["a"], refused=["b"])

    assert await store.receipts.find_states(live, NAME, ["a", "b"]) == {"a": TAKEN, "b": REFUSED}
    assert await store.receipts.claim_records(live, NAME, ["a", "b"]) == {"a": TAKEN}
    await deliver(store, live, ["b"])
    assert await store.receipts.find_states(live, NAME, ["a", "b"]) == {"a": TAKEN, "b": TAKEN}


async def test_a_refusal_is_remembered_until_there_is_another_answer(store: Stores) -> None:
    slow, live = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])
    slow = await deliver(store, slow, [], refused=["a"])

    # While a job is about to send the record again, it is claimed like any other
    assert await store.receipts.claim_records(slow, NAME, ["a"]) == {}
    assert await store.receipts.claim_records(live, NAME, ["a"]) == {"a": CLAIMED}

    # When that job ends without an answer, then the refusal is still known
    await settled(store, change.fail(slow, reason=Reason.REFUSED, error="down"))
    assert await store.receipts.find_states(live, NAME, ["a"]) == {"a": REFUSED}
    assert await store.receipts.claim_records(live, NAME, ["a"]) == {}


async def test_receipts_are_those_of_one_name_and_one_pair_of_accounts(store: Stores) -> None:
    slow, live = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])
    await deliver(store, slow, ["a"])

    other_account = msgspec.structs.replace(live, destination_connection_id="strava_2")
    other_source = msgspec.structs.replace(live, connection_id="conn_2")
    assert await store.receipts.find_states(live, "other", ["a"]) == {}
    assert await store.receipts.find_states(other_account, NAME, ["a"]) == {}
    assert await store.receipts.find_states(other_source, NAME, ["a"]) == {}
    assert await store.receipts.find_states(live, NAME, ["a"]) == {"a": TAKEN}


async def test_a_chunk_that_loses_its_claim_leaves_no_receipt(store: Stores) -> None:
    slow, _ = await two_jobs(store)
    await store.receipts.claim_records(slow, NAME, ["a"])
    await settled(store, change.advance(slow, tally(), {}))
    before = await everything(store)

    late = change.advance(slow, tally(), {})
    assert await store.jobs.settle(late, ChunkWork(receipts=[Receipt("a", TAKEN)])) is None

    assert await everything(store) == before


async def test_records_are_stored_under_the_shared_name(store: Stores) -> None:
    slow, live = await two_jobs(store)
    await bring(store, slow, Record("a", {"is": "old"}))

    # When the other sync stores the same record anew, then it is the same row
    after = await bring(store, live, Record("a", {"is": "new"}), stored_as=NAME)

    assert counts(after) == (0, 1, 0)
    assert await store.records.list_records(NAME, "conn_1", limit=10) == [
        Record("a", {"is": "new"})
    ]
    assert await store.records.list_records("other", "conn_1", limit=10) == []


async def test_more_records_than_one_statement_takes_are_claimed(store: Stores) -> None:
    slow, live = await two_jobs(store)
    keys = [f"key_{number:05d}" for number in range(2 * ROWS_MAX + 1 if is_sql(store) else 250)]

    assert await store.receipts.claim_records(slow, NAME, keys) == {}
    assert len(await store.receipts.claim_records(live, NAME, keys[::-1])) == len(keys)
    await deliver(store, slow, keys)
    assert set((await store.receipts.find_states(live, NAME, keys)).values()) == {TAKEN}


async def test_whoever_claims_a_record_at_the_same_time_waits_for_the_first(
    store_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Postgres, where two transactions run at once; SQLite has one writer."""
    async with opened(PostgresDatabase(store_url, clock, server_time=False)) as database:
        # Given a record that was refused, and a transaction that has found that it may have it
        store = SqlStores(database, SYNCS)
        slow, live = await two_jobs(store)
        await store.receipts.claim_records(slow, NAME, ["a"])
        slow = await deliver(store, slow, [], refused=["a"])
        found, go_on = asyncio.Event(), asyncio.Event()
        find_states = receipts._states

        def find_slowly(*args: Any, **options: Any) -> dict[str, ReceiptState]:
            states = find_states(*args, **options)
            found.set()
            await_only(go_on.wait())
            return states

        monkeypatch.setattr(receipts, "_states", find_slowly)
        first = asyncio.create_task(store.receipts.claim_records(slow, NAME, ["a"]))
        await found.wait()
        monkeypatch.undo()

        # When another job claims it too
        second = asyncio.create_task(store.receipts.claim_records(live, NAME, ["a"]))
        await until_one_waits(store_url)
        go_on.set()

        # Then it waits for the first, and finds its claim
        assert await first == {}
        assert await second == {"a": CLAIMED}


async def test_of_many_jobs_at_once_each_record_has_one_owner(
    sql_store: SqlStores, make_database: MakeDatabase
) -> None:
    """Each job runs in a process of its own, and wants records that others want too."""
    # Given eight jobs of one user's connection, in two processes
    async with others(make_database) as [second]:
        stores = [sql_store, SqlStores(second, SYNCS)]
        for number in range(8):
            await sql_store.jobs.submit(
                msgspec.structs.replace(
                    new_job(connection_id=f"conn_{number}"), destination_connection_id="strava"
                )
            )
        jobs = (await sql_store.jobs.claim(Lane.COLD, worker="w", limit=8, lease=LEASE)).jobs
        assert len(jobs) == 8
        # As if all were syncs of one connection, which may have one active job for each sync
        jobs = [msgspec.structs.replace(job, connection_id="conn_1") for job in jobs]

        # When all claim overlapping records at the same time, in different orders
        keys = [f"key_{number}" for number in range(12)]
        wanted = [keys[place : place + 5][:: 1 if place % 2 else -1] for place in range(8)]
        missed = await asyncio.gather(
            *(
                stores[place % 2].receipts.claim_records(job, NAME, wanted[place])
                for place, job in enumerate(jobs)
            )
        )

        # Then no record went to two jobs, and somebody got theirs
        got = [key for place, states in enumerate(missed) if not states for key in wanted[place]]
        assert got
        assert len(got) == len(set(got))
