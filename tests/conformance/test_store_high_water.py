"""High-water marks: moved by a job's success and by nothing else, and told to the next job."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.encoding import Json
from headgate.model import change
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from tests.conformance.changes import CASES
from tests.store_bundles import Stores
from tests.stores import LEASE, claim_ids, everything, run_one, settled, tally


def named(mark: Json) -> change.ChunkResult:
    """What a chunk leaves behind whose source named this mark."""
    return replace(tally(), high_water=mark)


async def run_marked(store: Stores, mark: Json, **fields: Any) -> Job:
    """A job that runs and has named a mark."""
    running = await run_one(store, **fields)
    return await settled(store, change.advance(running, named(mark), {}))


async def succeed(store: Stores, mark: Json, **fields: Any) -> Job:
    """A job that has succeeded and named a mark on its way."""
    job = await run_marked(store, mark, **fields)
    return await settled(store, change.succeed(job, named(mark), {}))


async def mark_of(store: Stores, job: Job) -> Json:
    return await store.records.high_water(job.sync, job.connection_id)


async def test_a_mark_comes_back_as_it_was_named(store: Stores) -> None:
    for mark in (
        0,
        1767398400000,
        0.5,
        "",
        "2026-01-03T00:00:00Z",
        False,
        [1, None],
        {"a": {"b": "é"}},
    ):
        job = await succeed(store, mark)

        assert job.high_water == mark
        assert await store.jobs.get(job.id) == job
        assert await mark_of(store, job) == mark


async def test_the_next_success_moves_it_and_says_who_and_when(
    store: Stores, clock: ManualClock
) -> None:
    for mark in (7, 5):
        clock.advance(10)
        job = await succeed(store, mark, connection_id="c")

        [row] = (await everything(store))["high_water_marks"]
        assert row == (job.sync, "c", mark, job.id, clock.now())

    # One that named none leaves it
    job = await succeed(store, None, connection_id="c")
    assert job.high_water is None
    assert await mark_of(store, job) == 5


async def test_every_sync_and_connection_has_its_own(store: Stores) -> None:
    pairs = [("notes", "c1"), ("notes", "c2"), ("other", "c1")]
    jobs = [
        await succeed(store, number, sync=sync, connection_id=connection)
        for number, (sync, connection) in enumerate(pairs)
    ]

    assert [await mark_of(store, job) for job in jobs] == [0, 1, 2]
    assert await store.records.high_water("other", "c2") is None


async def test_nothing_but_a_success_stores_it(store: Stores) -> None:
    for name, case in CASES.items():
        if name in ("succeed", "start_again"):
            continue
        # Given a job that has named a mark, in a state that the change starts from
        running = before = await run_marked(store, 7)
        if case.source is JobState.PENDING:
            before = await settled(store, change.release(running))
        elif case.source is JobState.CANCELLING:
            before = await settled(store, change.ask_cancel(running, deadline=LEASE))
        elif case.source is JobState.PAUSED:
            opened = change.open_breaker(running, cooldown=LEASE, error="down")
            before = await settled(store, opened)

        # When it is applied
        await settled(store, case.make(before))

        # Then no mark is stored
        assert await mark_of(store, running) is None, name
        # And nothing waits when the next begins
        await claim_ids(store, 1)


async def test_a_job_that_succeeds_while_it_is_being_cancelled_stores_it(store: Stores) -> None:
    running = await run_marked(store, 7)
    await settled(store, change.ask_cancel(running, deadline=LEASE))

    after = await settled(store, change.succeed(running, named(8), {}))

    assert (after.state, await mark_of(store, after)) == (JobState.SUCCESS, 8)


async def test_a_chunk_that_meets_a_cancel_or_a_pause_keeps_its_mark_on_the_job(
    store: Stores,
) -> None:
    for asked, state in (("ask_pause", JobState.PAUSED), ("ask_cancel", JobState.CANCELLED)):
        running = await run_one(store)
        await settled(store, CASES[asked].make(running))

        after = await settled(store, change.advance(running, named(7), {}))

        assert after.state is state
        assert (after.high_water, await mark_of(store, after)) == (7, None)


async def test_a_lost_claim_moves_nothing(store: Stores, clock: ManualClock) -> None:
    # Given a worker that was taken for dead
    zombie = await run_marked(store, 7)
    clock.advance(61)
    await settled(store, change.rescue(zombie, after=timedelta(0)))
    before = await everything(store)

    # When it names a mark, or succeeds, then neither counts
    for late in (change.advance, change.succeed):
        assert await store.jobs.settle(late(zombie, named(9), {})) is None
        assert await everything(store) == before


async def test_a_job_that_goes_on_after_a_failure_goes_on_from_its_mark(store: Stores) -> None:
    running = await run_marked(store, 7)
    failed = await settled(store, change.fail(running, reason=Reason.REFUSED, error="no"))

    again = await settled(store, change.start_again(failed, Reason.RETRY_NOW))

    assert (again.high_water, await mark_of(store, again)) == (7, None)
