"""Retention: jobs that ended long ago are deleted, and what is still asked of them is kept."""

from datetime import date, timedelta

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound
from headgate.model import change
from headgate.model.job import Job, Lane
from headgate.model.record import Coverage
from headgate.model.states import JOB, DayStatus, JobState
from headgate.ports.jobs.store import ChunkWork, JobFilter
from headgate.ports.jobs.submission import NewJob
from tests.store_bundles import Stores
from tests.stores import claim_one, ids, in_state, kinds, new_job, submit_all, tally

WEEK = timedelta(days=7)
WEEK_S = WEEK.total_seconds()
MINE = "mine"


async def ended(
    store: Stores, clock: ManualClock, *states: JobState, connection_id: str = MINE
) -> list[Job]:
    """Jobs of one connection that ended one after another, a second apart."""
    jobs = []
    for state in states:
        clock.advance(1)
        jobs.append(await in_state(store, state, connection_id=connection_id))
    return jobs


async def prune(store: Stores, *, limit: int = 100) -> int:
    """Prune in steps of `limit` jobs until all have been looked at; returns how many are gone."""
    gone, after = 0, None
    for _ in range(100):
        pruned = await store.jobs.prune_jobs(older_than=WEEK, limit=limit, after=after)
        gone, after = gone + pruned.count, pruned.after
        if after is None:
            return gone
    raise AssertionError("pruning does not end")


async def left(store: Stores) -> list[str]:
    """The ids of all jobs, the oldest first."""
    return ids((await store.jobs.list_jobs(JobFilter(), limit=100))[::-1])


async def test_old_jobs_are_deleted_with_their_events(store: Stores, clock: ManualClock) -> None:
    # Given three jobs that succeeded long ago, one after another
    first, second, last = await ended(store, clock, *[JobState.SUCCESS] * 3)
    clock.advance(WEEK_S + 1)

    # When old jobs are pruned
    assert await prune(store) == 2

    # Then the last one of its connection is left, with its events, and nothing of the others
    assert await left(store) == [last.id]
    assert await kinds(store, last.id) != []
    for gone in (first, second):
        assert await kinds(store, gone.id) == []
        with pytest.raises(NotFound):
            await store.jobs.get(gone.id)
    assert await prune(store) == 0


async def test_young_jobs_are_kept(store: Stores, clock: ManualClock) -> None:
    # Given a job that is old, one that is old and ended later, and two young ones
    [old] = await ended(store, clock, JobState.FAILED)
    [long] = await ended(store, clock, JobState.RUNNING)
    clock.advance(WEEK_S)
    finished = await store.jobs.settle(change.succeed(long, tally(), {}))
    young = await ended(store, clock, JobState.SUCCESS, JobState.SUCCESS)

    # Then only the old one is deleted
    assert await prune(store) == 1
    assert finished is not None
    assert await left(store) == ids([finished, *young])
    assert old.id not in await left(store)


async def test_a_job_that_has_not_ended_is_kept_however_old(
    store: Stores, clock: ManualClock
) -> None:
    # Given active jobs, older than an ended one of their user
    states = sorted(JOB.active, key=lambda each: each is JobState.PENDING)
    active = [(await ended(store, clock, each, connection_id=each))[0] for each in states]
    clock.advance(1)
    other = await in_state(store, JobState.SUCCESS, connection_id="other", lane=Lane.HOT)
    clock.advance(2 * WEEK_S)

    assert await prune(store) == 0
    assert await left(store) == ids([*active, other])


async def test_the_last_job_and_the_last_success_of_each_connection_stay(
    store: Stores, clock: ManualClock
) -> None:
    # Given two connections, whose last jobs failed
    states = (JobState.SUCCESS, JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED)
    mine = await ended(store, clock, *states)
    theirs = await ended(store, clock, *states[1:3], connection_id="theirs")
    clock.advance(WEEK_S + 1)

    # When old jobs are pruned
    assert await prune(store) == 2

    # Then each has its last success and its last job
    assert await left(store) == ids([mine[1], mine[3], *theirs])


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pruning_goes_on_where_it_stopped(
    store: Stores, clock: ManualClock, limit: int
) -> None:
    # Given old jobs of which every second one stays, and a young one
    both = (JobState.SUCCESS, JobState.SUCCESS)
    kept = [
        (await ended(store, clock, *both, connection_id=f"connection {number}"))[1].id
        for number in range(4)
    ]
    clock.advance(WEEK_S + 1)
    [young] = await ended(store, clock, JobState.PENDING)

    # When they are pruned, so many at a time, then all are looked at
    assert await prune(store, limit=limit) == 4
    assert await left(store) == [*kept, young.id]


async def test_the_key_of_a_deleted_job_is_free(store: Stores, clock: ManualClock) -> None:
    # Given a job with a key, and a later one
    first = await in_state(store, JobState.SUCCESS, connection_id=MINE, key="once")
    await ended(store, clock, JobState.SUCCESS)
    clock.advance(WEEK_S + 1)
    assert not (await store.jobs.submit(new_job(connection_id=MINE, key="once"))).created

    # When it is pruned, then the same key makes a new job
    assert await prune(store) == 1
    again = await store.jobs.submit(new_job(connection_id=MINE, key="once"))
    assert again.created and again.job.id != first.id


def day_for(day: date, destination: str | None) -> NewJob:
    """A backfill of one day, for an account at the destination."""
    new = new_job(connection_id=MINE, start_date=day, end_date=day)
    return msgspec.structs.replace(new, destination_connection_id=destination)


@pytest.mark.parametrize("destination", ["account", None])
async def test_days_stay_covered_after_their_job_is_deleted(
    store: Stores, clock: ManualClock, destination: str | None
) -> None:
    # Given a day that was brought to a destination, by a job that is deleted
    day = date(2026, 1, 2)
    [job] = await submit_all(store, [day_for(day, destination)])
    running = await claim_one(store, job.lane)
    work = ChunkWork(coverage=Coverage(day=day, status=DayStatus.HELD, records=1))
    await store.jobs.settle(change.succeed(running, tally(), {}), work)
    await ended(store, clock, JobState.SUCCESS)
    clock.advance(WEEK_S + 1)
    assert await prune(store) == 1

    # Then it counts as brought there, and nowhere else
    for other in ("account", "another", None):
        [found] = await store.coverage.covered_days([day_for(day, other)])
        assert [row.day for row in found] == ([day] if other == destination else [])
