"""What a source reports of a chunk: its events and its counts, in the chunk's transaction."""

import asyncio
from datetime import timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Job, JobEvent, Summary
from headgate.model.record import ChunkEvent, Record
from headgate.ports.jobs.store import ChunkWork
from tests.conformance.changes import CASES
from tests.conformance.chunks import bring
from tests.store_bundles import Stores
from tests.stores import START, everything, kinds, run_one, settled, tally

PAGES = [ChunkEvent("page_read", {"page": number}) for number in range(100)]


async def story(store: Stores, job: Job) -> list[JobEvent]:
    """All that was told of the job after it was submitted."""
    return list(await store.events.list_events(job.id, after=0, limit=1000))[1:]


async def test_they_are_told_in_order_and_before_the_engine_s_own(store: Stores) -> None:
    # Given a job that runs
    job = await run_one(store)

    # When a chunk is settled that tells of a hundred things
    await bring(store, job, events=PAGES)

    # Then they are there in order, at the chunk's time, and the chunk's own event is the last
    told = await story(store, job)
    assert [each.kind for each in told] == ["page_read"] * 100 + ["chunk"]
    assert [each.data for each in told[:-1]] == [{"page": number} for number in range(100)]
    assert {each.at for each in told} == {START}
    assert [each.id for each in told] == sorted(each.id for each in told)


async def test_each_job_of_a_batch_has_its_own_story(store: Stores) -> None:
    # Given several jobs that run
    running = [await run_one(store) for _ in range(8)]

    # When their chunks are settled together
    told = {job.id: [ChunkEvent("first", {"of": job.id}), ChunkEvent("second")] for job in running}
    await asyncio.gather(*(bring(store, job, events=told[job.id]) for job in running))

    # Then each has told its own, in order
    for job in running:
        first, second, chunk = await story(store, job)
        assert [first.kind, second.kind, chunk.kind] == ["first", "second", "chunk"]
        assert first.data == {"of": job.id}


async def test_what_it_counts_is_part_of_the_summary(store: Stores) -> None:
    for counts in ({}, {"skipped": 0}, {"skipped": 3, "renamed": 50_000_000_000}):
        job = await run_one(store)

        after = await settled(store, change.advance(job, tally(chunks=1, counts=counts), {}))

        assert after.summary == Summary(chunks=1, counts=counts)
        assert await store.jobs.get(job.id) == after

    # And what the store counts under the same name stays beside it
    job = await run_one(store)
    wanted = change.advance(job, tally(records=1, counts={"inserted": 7}), {})
    both = await store.jobs.settle(wanted, ChunkWork(records=[Record("a", {})]))
    assert both is not None
    assert both.summary == Summary(records=1, inserted=1, counts={"inserted": 7})


async def test_a_lost_claim_tells_and_counts_nothing(store: Stores, clock: ManualClock) -> None:
    # Given a worker that was taken for dead
    zombie = await run_one(store)
    clock.advance(61)
    await settled(store, change.rescue(zombie, after=timedelta(0)))
    before = await everything(store)

    # When it settles its chunk
    late = change.advance(zombie, tally(counts={"skipped": 1}), {})
    assert await store.jobs.settle(late, ChunkWork(events=PAGES)) is None

    # Then nothing is told, and nothing counted
    assert await everything(store) == before


async def test_a_chunk_that_is_settled_twice_counts_once(store: Stores) -> None:
    job = await run_one(store)
    wanted = change.advance(job, tally(counts={"skipped": 1}), {})
    work = ChunkWork(events=PAGES[:2])

    assert await store.jobs.settle(wanted, work) is not None
    assert await store.jobs.settle(wanted, work) is None

    assert (await store.jobs.get(job.id)).summary.counts == {"skipped": 1}
    assert await kinds(store, job.id) == ["submitted", "page_read", "page_read", "chunk"]


async def test_what_the_database_does_not_take_leaves_no_event_behind(store: Stores) -> None:
    # Given a chunk with a record that cannot be written
    job = await run_one(store)
    before = await everything(store)

    # When it is settled
    with pytest.raises(TypeError):
        await bring(store, job, Record("a", {"not": object()}), events=PAGES[:1])

    # Then nothing of it is there
    assert await everything(store) == before


async def test_a_chunk_keeps_its_events_when_it_meets_a_cancel_or_a_pause(store: Stores) -> None:
    for asked in ("ask_cancel", "ask_pause"):
        # Given somebody who asked for the job's end, or for a pause, while its chunk was read
        job = await run_one(store)
        await settled(store, CASES[asked].make(job))

        # When the chunk is settled
        after = await bring(store, job, events=PAGES[:1])

        # Then it was kept, and what it told too
        assert after.steps == 1
        assert (await kinds(store, job.id))[-2:] == ["page_read", after.state.value]
