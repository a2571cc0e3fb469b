"""Batches and transactions: all of a chunk or nothing, and nobody fails for another's fault."""

import asyncio
from datetime import date
from types import ModuleType
from typing import Any

import pytest

from headgate.base.errors import ActiveJobExists, StoreError
from headgate.model import change
from headgate.model.job import Job, Reason
from headgate.model.record import Coverage, Record
from headgate.model.states import DayStatus, JobState
from headgate.ports.jobs.store import ChunkWork
from headgate.store.sql.jobs import events
from headgate.store.sql.records import coverage
from headgate.store.sql.records import store as records
from tests.conformance.databases import count_writes
from tests.store_bundles import SqlStores, Stores
from tests.stores import claim_one, everything, in_state, kinds, run_one, settled, submit_one, tally


async def run_some(store: Stores, count: int) -> list[Job]:
    for _ in range(count):
        await submit_one(store)
    return [await claim_one(store) for _ in range(count)]


def work(number: int) -> ChunkWork:
    return ChunkWork(
        records=[Record(f"record_{number}", {"number": number})],
        coverage=Coverage(day=date(2025, 1, number + 1), status=DayStatus.HELD, records=1),
    )


async def test_changes_that_come_together_are_written_together(
    sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given twenty running jobs
    running = await run_some(sql_store, 20)
    writes = count_writes(sql_store.database, monkeypatch)

    # When all of them settle a chunk at the same time
    wanted = [change.rest(job, tally(cursor=job.id), {}) for job in running]
    after = await asyncio.gather(
        *(sql_store.jobs.settle(each, work(number)) for number, each in enumerate(wanted))
    )

    # Then it took one transaction, and each got its own answer and stored its own chunk
    assert len(writes) == 1
    assert [job.cursor for job in after if job] == [job.id for job in running]
    rows = await everything(sql_store)
    assert len(rows["records"]) == len(rows["coverage"]) == 20
    for job in running:
        assert await kinds(sql_store, job.id) == ["submitted", "chunk"]


async def test_a_lost_claim_in_a_batch_writes_nothing_and_holds_up_nobody(store: Stores) -> None:
    # Given two running jobs, of which one has been taken away
    lost, kept = await run_some(store, 2)
    await settled(store, change.release(lost))

    # When both settle at the same time
    answers = await asyncio.gather(
        store.jobs.settle(change.advance(lost, tally(), {}), work(1)),
        store.jobs.settle(change.advance(kept, tally(), {}), work(2)),
    )

    # Then only the one that is still held is written
    assert answers[0] is None
    assert answers[1] == await store.jobs.get(kept.id)
    rows = await everything(store)
    assert [row[2] for row in rows["records"]] == ["record_2"]
    assert [row[2] for row in rows["coverage"]] == [date(2025, 1, 3)]
    assert await kinds(store, lost.id) == ["submitted", "released"]


async def test_two_changes_of_one_job_in_one_batch_meet_each_other(
    sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a running job, whose pause is asked for while its chunk is being settled
    running = await run_one(sql_store)
    writes = count_writes(sql_store.database, monkeypatch)

    # When both come in one batch
    asked, after = await asyncio.gather(
        sql_store.jobs.settle(change.ask_pause(running)),
        sql_store.jobs.settle(change.rest(running, tally(cursor="kept"), {}), work(1)),
    )

    # Then the chunk meets the pause as if it had come later
    assert len(writes) == 1
    assert asked is not None
    assert after is not None
    assert asked.pause_requested
    assert (after.state, after.reason, after.cursor) == (JobState.PAUSED, Reason.OPERATOR, "kept")
    assert after == await sql_store.jobs.get(running.id)
    assert await kinds(sql_store, running.id) == ["submitted", "pause_asked", "paused"]


async def test_two_chunks_of_one_job_in_one_batch_both_count(sql_store: SqlStores) -> None:
    # Given a worker so quick that its second chunk comes while the first waits to be written
    running = await run_one(sql_store)
    first = change.advance(running, tally(cursor="one"), {})
    second = change.advance(first.after, tally(cursor="two"), {})

    # When both come in one batch
    answers = await asyncio.gather(
        sql_store.jobs.settle(first, work(1)), sql_store.jobs.settle(second, work(2))
    )

    # Then the second follows the first
    assert [job.steps for job in answers if job] == [1, 2]
    assert answers[1] == await sql_store.jobs.get(running.id)
    assert (await sql_store.jobs.get(running.id)).cursor == "two"
    assert len((await everything(sql_store))["records"]) == 2


async def test_a_refused_change_does_not_sink_the_others_of_its_batch(store: Stores) -> None:
    # Given a failed job beside a newer one, and two running jobs
    failed = await in_state(store, JobState.FAILED, connection_id="c")
    newer = await run_one(store, connection_id="c")
    one, two = await run_some(store, 2)

    # When a retry of the failed one comes in one batch with two good changes
    answers = await asyncio.gather(
        store.jobs.settle(change.advance(one, tally(), {}), work(1)),
        store.jobs.settle(change.start_again(failed, Reason.RETRY_NOW)),
        store.jobs.settle(change.advance(two, tally(), {}), work(2)),
        return_exceptions=True,
    )

    # Then only the retry is refused
    assert answers[0] == await store.jobs.get(one.id)
    assert answers[2] == await store.jobs.get(two.id)
    assert isinstance(answers[1], ActiveJobExists)
    assert answers[1].job_id == newer.id
    assert await store.jobs.get(failed.id) == failed
    assert len((await everything(store))["records"]) == 2
    # And each good one was told once, although the batch was tried twice
    assert await kinds(store, one.id) == ["submitted", "chunk"]


async def test_of_two_failed_jobs_retried_in_one_batch_one_comes_back(sql_store: SqlStores) -> None:
    # Given two failed jobs of one sync and connection
    older = await in_state(sql_store, JobState.FAILED, connection_id="c")
    newer = await in_state(sql_store, JobState.FAILED, connection_id="c")

    # When both are retried in one batch
    answers = await asyncio.gather(
        *(
            sql_store.jobs.settle(change.start_again(job, Reason.RETRY_NOW))
            for job in (older, newer)
        ),
        return_exceptions=True,
    )

    # Then the first is back, and the second is told by whom its place is taken
    assert answers[0] == await sql_store.jobs.get(older.id)
    assert isinstance(answers[1], ActiveJobExists)
    assert answers[1].job_id == older.id
    assert (await sql_store.jobs.get(older.id)).state is JobState.PENDING
    assert await sql_store.jobs.get(newer.id) == newer


async def test_a_change_that_the_database_refuses_does_not_sink_the_others(store: Stores) -> None:
    # Given two running jobs, and a chunk that no database takes: its coverage counts nothing
    bad, good = await run_some(store, 2)
    nothing: Any = None
    uncounted = Coverage(day=date(2025, 1, 1), status=DayStatus.HELD, records=nothing)
    broken = ChunkWork(records=work(1).records, coverage=uncounted)

    # When it comes in one batch with a good one
    answers = await asyncio.gather(
        store.jobs.settle(change.advance(bad, tally(), {}), broken),
        store.jobs.settle(change.advance(good, tally(), {}), work(2)),
        return_exceptions=True,
    )

    # Then only it fails, and has left nothing
    assert isinstance(answers[0], StoreError)
    assert answers[1] == await store.jobs.get(good.id)
    assert await store.jobs.get(bad.id) == bad
    assert [row[2] for row in (await everything(store))["records"]] == ["record_2"]


async def test_a_record_that_may_not_be_storable_does_not_sink_the_others(store: Stores) -> None:
    for value in (object(), 2**70, "\ud800", "\x00"):
        # Given two running jobs, and a record that not every encoder or database takes
        doubtful, good = await run_some(store, 2)
        record = Record("doubtful", {"value": value})

        # When it comes in one batch with a good one
        answers = await asyncio.gather(
            store.jobs.settle(change.advance(doubtful, tally(), {}), ChunkWork(records=[record])),
            store.jobs.settle(change.advance(good, tally(), {}), work(2)),
            return_exceptions=True,
        )

        # Then the good one is written
        assert answers[1] == await store.jobs.get(good.id)
        assert (
            await store.records.list_records(good.sync, good.connection_id, limit=10)
            == work(2).records
        )
        # And the doubtful one is there as it was given, or was refused and has left nothing
        there = list(
            await store.records.list_records(doubtful.sync, doubtful.connection_id, limit=10)
        )
        if isinstance(answers[0], Exception):
            assert there == []
            assert await store.jobs.get(doubtful.id) == doubtful
        else:
            assert there == [record]
            assert answers[0] == await store.jobs.get(doubtful.id)


@pytest.mark.parametrize(
    ("module", "function"),
    [(records, "store"), (coverage, "store"), (events, "append")],
    ids=["after the records", "after the coverage", "after the events"],
)
async def test_a_failure_in_the_middle_of_a_chunk_leaves_nothing_of_it(
    sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str
) -> None:
    # Given a store that fails right after one of a chunk's writes
    running = await run_one(sql_store)
    before = await everything(sql_store)
    original = getattr(module, function)

    def write_and_fail(*args: Any) -> None:
        original(*args)
        raise StoreError("the power went out")

    with monkeypatch.context() as failing:
        failing.setattr(module, function, write_and_fail)

        # When a chunk is settled
        with pytest.raises(StoreError, match="the power went out"):
            await sql_store.jobs.settle(change.advance(running, tally(), {}), work(1))

    # Then nothing of it is there: no record, no coverage, no cursor, no event
    assert await everything(sql_store) == before
    # And the same chunk goes through when the failure is over
    assert await sql_store.jobs.settle(change.advance(running, tally(), {}), work(1)) is not None


async def test_a_failure_that_nobody_foresaw_reaches_its_caller_and_writes_nothing(
    sql_store: SqlStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await run_one(sql_store)
    before = await everything(sql_store)

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as failing:
        failing.setattr(events, "append", fail)
        with pytest.raises(ZeroDivisionError):
            await sql_store.jobs.settle(change.advance(running, tally(), {}), work(1))

    assert await everything(sql_store) == before


async def test_a_submit_that_fails_at_its_event_leaves_no_job(sql_store: SqlStores) -> None:
    # Given a database that refuses the event
    refuse, allow = (
        (
            "CREATE TRIGGER refuse BEFORE INSERT ON headgate_job_events "
            "BEGIN SELECT RAISE(ABORT, 'no events'); END",
            "DROP TRIGGER refuse",
        )
        if sql_store.database.embedded
        else (
            "ALTER TABLE headgate_job_events ADD CONSTRAINT refuse CHECK (false) NOT VALID",
            "ALTER TABLE headgate_job_events DROP CONSTRAINT refuse",
        )
    )
    await sql_store.database.write(lambda tx: tx.exec_driver_sql(refuse))

    # When a job is submitted, then it is refused as a whole
    try:
        with pytest.raises(StoreError):
            await submit_one(sql_store)
    finally:
        await sql_store.database.write(lambda tx: tx.exec_driver_sql(allow))
    assert (await everything(sql_store))["jobs"] == []
