"""High-water marks: moved by a job's success and by nothing else, and told to the next job."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.encoding import Json
from headgate.base.errors import ActiveJobExists
from headgate.model import change
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.store.sql import high_water
from headgate.store.sql.store import SqlStore
from headgate.store.sql.tables import high_water_marks
from tests.conformance.changes import CASES
from tests.stores import (
    LEASE,
    START,
    MakeDatabase,
    everything,
    in_state,
    new_job,
    run_one,
    settled,
    submit_one,
    tally,
)


def named(mark: Json) -> change.Tally:
    """What a chunk leaves behind whose source named this mark."""
    return replace(tally(), high_water=mark)


async def run_marked(store: SqlStore, mark: Json, **fields: Any) -> Job:
    """A job that runs and has named a mark."""
    running = await run_one(store, **fields)
    return await settled(store, change.advance(running, named(mark), {}))


async def succeed(store: SqlStore, mark: Json, **fields: Any) -> Job:
    """A job that has succeeded and named a mark on its way."""
    job = await run_marked(store, mark, **fields)
    return await settled(store, change.succeed(job, named(mark), {}))


async def mark_of(store: SqlStore, job: Job) -> Json:
    return await store.database.read(
        lambda tx: high_water.of_connection(tx, job.sync, job.connection_id)
    )


# Storing it.


@pytest.mark.parametrize(
    "mark", [0, 1767398400000, 0.5, "", "2026-01-03T00:00:00Z", False, [1, None], {"a": {"b": "é"}}]
)
async def test_a_mark_comes_back_as_it_was_named(store: SqlStore, mark: Json) -> None:
    job = await succeed(store, mark)

    assert job.high_water == mark
    assert await store.get(job.id) == job
    assert await mark_of(store, job) == mark


async def test_a_mark_says_who_stored_it_and_when(store: SqlStore, clock: ManualClock) -> None:
    clock.advance(10)

    job = await succeed(store, 7)

    [row] = (await everything(store))[high_water_marks.name]
    assert row == (job.sync, job.connection_id, 7, job.id, START + timedelta(seconds=10))


async def test_the_next_success_moves_it(store: SqlStore, clock: ManualClock) -> None:
    await succeed(store, 7, connection_id="c")
    clock.advance(10)

    job = await succeed(store, 5, connection_id="c")

    [row] = (await everything(store))[high_water_marks.name]
    assert row == (job.sync, "c", 5, job.id, START + timedelta(seconds=10))


async def test_a_success_that_named_none_leaves_it(store: SqlStore) -> None:
    await succeed(store, 7, connection_id="c")

    job = await succeed(store, None, connection_id="c")

    assert job.high_water is None
    assert await mark_of(store, job) == 7


async def test_every_sync_and_connection_has_its_own(store: SqlStore) -> None:
    pairs = [("s1", "c1"), ("s1", "c2"), ("s2", "c1")]
    jobs = [
        await succeed(store, number, sync=sync, connection_id=connection)
        for number, (sync, connection) in enumerate(pairs)
    ]

    assert [await mark_of(store, job) for job in jobs] == [0, 1, 2]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("succeed", "start_again")])
async def test_nothing_but_a_success_stores_it(store: SqlStore, name: str) -> None:
    # Given a job that has named a mark, in a state that the change starts from
    running = await run_marked(store, 7)
    source = CASES[name].source
    before = running
    if source is JobState.PENDING:
        before = await settled(store, change.release(running))
    elif source is JobState.CANCELLING:
        before = await settled(store, change.ask_cancel(running, deadline=LEASE))
    elif source is JobState.PAUSED:
        before = await settled(store, change.open_breaker(running, cooldown=LEASE, error="down"))

    # When it is applied
    await settled(store, CASES[name].make(before))

    # Then no mark is stored
    assert await mark_of(store, running) is None


async def test_a_job_that_succeeds_while_it_is_being_cancelled_stores_it(store: SqlStore) -> None:
    running = await run_marked(store, 7)
    await settled(store, change.ask_cancel(running, deadline=LEASE))

    after = await settled(store, change.succeed(running, named(8), {}))

    assert (after.state, await mark_of(store, after)) == (JobState.SUCCESS, 8)


@pytest.mark.parametrize("asked", [change.ask_pause, "cancel"])
async def test_a_chunk_that_meets_a_cancel_or_a_pause_keeps_its_mark_on_the_job(
    store: SqlStore, asked: Any
) -> None:
    running = await run_one(store)
    ask = asked(running) if asked != "cancel" else change.ask_cancel(running, deadline=LEASE)
    await settled(store, ask)

    after = await settled(store, change.advance(running, named(7), {}))

    assert after.state in (JobState.PAUSED, JobState.CANCELLED)
    assert (after.high_water, await mark_of(store, after)) == (7, None)


async def test_a_lost_claim_moves_nothing(store: SqlStore, clock: ManualClock) -> None:
    # Given a worker that was taken for dead
    zombie = await run_marked(store, 7)
    clock.advance(61)
    await settled(store, change.rescue(zombie, after=timedelta(0)))
    before = await everything(store)

    # When it names a mark, or succeeds, then neither counts
    for late in (change.advance, change.succeed):
        assert await store.settle(late(zombie, named(9), {})) is None
        assert await everything(store) == before


async def test_a_job_that_goes_on_after_a_failure_goes_on_from_its_mark(store: SqlStore) -> None:
    running = await run_marked(store, 7)
    failed = await settled(store, change.fail(running, reason=Reason.REFUSED, error="no"))

    again = await settled(store, change.start_again(failed, Reason.RETRY_NOW))

    assert (again.high_water, await mark_of(store, again)) == (7, None)


# Telling it.


async def test_a_job_is_told_the_mark_that_was_stored_when_it_was_submitted(
    store: SqlStore,
) -> None:
    # Given a mark
    await succeed(store, {"at": 7}, connection_id="c")

    # When the next job is submitted, with parameters of its own
    job = await submit_one(store, connection_id="c", params={"limit": 3})

    # Then it carries the mark beside them, and has named none itself
    assert job.params == {"limit": 3, "high_water": {"at": 7}}
    assert job.high_water is None
    assert await store.get(job.id) == job


async def test_a_job_keeps_the_mark_it_was_told(store: SqlStore) -> None:
    # Given a job that failed, and another that moved the mark meanwhile
    await succeed(store, 1, connection_id="c")
    old = await in_state(store, JobState.FAILED, connection_id="c")
    await succeed(store, 2, connection_id="c")

    # When the first goes on, then it still reads from where it began
    again = await settled(store, change.start_again(old, Reason.RETRY_NOW))
    assert again.params == {"high_water": 1}


async def test_the_same_key_again_is_the_same_job_with_the_same_mark(store: SqlStore) -> None:
    first = await submit_one(store, connection_id="c", key="k")
    await store.settle(change.cancel(first))
    await succeed(store, 7, connection_id="c")

    again = await store.submit(new_job(connection_id="c", key="k"))

    assert (again.created, again.job.id, again.job.params) == (False, first.id, {})


async def test_another_connection_s_mark_is_not_told(store: SqlStore) -> None:
    await succeed(store, 7, connection_id="c1")

    assert (await submit_one(store, connection_id="c2")).params == {}
    assert (await submit_one(store, connection_id="c1", sync="other")).params == {}


async def test_a_job_submitted_at_the_very_moment_of_a_success_is_told_its_mark(
    store: SqlStore, make_database: MakeDatabase
) -> None:
    other = SqlStore(make_database())
    await other.database.open()
    try:
        for number in range(20):
            # Given a job that is about to succeed
            running = await run_one(store, connection_id="c")

            # When the next is submitted at the same time, by another process
            async def submit_next() -> Job:
                while True:
                    try:
                        return (await other.submit(new_job(connection_id="c"))).job
                    except ActiveJobExists:
                        continue

            done = change.succeed(running, named(number), {})
            _, job = await asyncio.gather(settled(store, done), submit_next())

            # Then it begins where the other ended
            assert job.params == {"high_water": number}
            await settled(store, change.cancel(job))
    finally:
        await other.database.close()
