"""What a rescuer does to the store: changes that still hold, and old events deleted."""

from datetime import timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError
from headgate.model import change
from headgate.model.job import Job
from headgate.model.states import JobState
from tests.store_bundles import Stores
from tests.stores import kinds, run_one, settled, shut_one, tally


async def sweep(store: Stores, changes: list[change.JobChange]) -> int:
    """How many of the changes took effect."""
    swept = await store.jobs.settle_many([(each, None) for each in changes])
    return sum(job is not None for job in swept)


async def lose_two(store: Stores, clock: ManualClock) -> list[Job]:
    """Two jobs whose worker is gone."""
    jobs = [await run_one(store), await run_one(store)]
    clock.advance(61)
    return jobs


async def test_a_sweep_applies_what_still_holds_and_counts_it(
    store: Stores, clock: ManualClock
) -> None:
    # Given two lost jobs, of which one has meanwhile been settled
    gone, back = await lose_two(store, clock)
    await settled(store, change.advance(back, tally(), {}))

    # When both are swept
    changes = [change.rescue(job, after=timedelta(0)) for job in (gone, back)]
    swept = await sweep(store, changes)

    # Then the one that is gone is rescued, and the other left alone
    assert swept == 1
    assert (await store.jobs.get(gone.id)).state is JobState.PENDING
    assert (await store.jobs.get(back.id)).state is JobState.RUNNING


async def test_a_provider_has_one_probe_whatever_two_rescuers_have_seen(store: Stores) -> None:
    # Given two jobs of a provider that is shut, of which two rescuers chose one each
    first, second = [await shut_one(store, cooldown_s=0) for _ in range(2)]
    assert await sweep(store, [change.thaw(first, probe=True)]) == 1

    # When the second is to become a probe too, then the database refuses
    with pytest.raises(StoreError):
        await sweep(store, [change.thaw(second, probe=True)])
    assert (await store.jobs.get(second.id)) == second


async def test_a_job_cancelled_as_it_becomes_a_probe_leaves_its_provider_to_others(
    store: Stores,
) -> None:
    # Given a cancel that was decided before a rescuer made the job a probe
    first, second = [await shut_one(store, cooldown_s=0) for _ in range(2)]
    late = change.cancel(first)
    assert await sweep(store, [change.thaw(first, probe=True)]) == 1

    # When it comes, then it has to look again
    assert await store.jobs.settle(late) is None
    await settled(store, change.cancel(await store.jobs.get(first.id)))

    # And the next job may be the probe
    assert [job.id for job in await store.breakers.list_thawable(limit=10)] == [second.id]
    assert await sweep(store, [change.thaw(second, probe=True)]) == 1


async def test_a_rescuer_that_was_frozen_does_not_undo_an_operators_pause(store: Stores) -> None:
    # Given a rescuer that has seen a cool-down end, and stands still
    shut = await shut_one(store, cooldown_s=0)
    late = change.thaw(shut, probe=True)

    # When an operator takes over, then what the rescuer was about to do comes to nothing
    paused = await settled(store, change.keep_paused(shut))
    assert await sweep(store, [late]) == 0
    assert await store.jobs.get(shut.id) == paused


# ---- pruning -----------------------------------------------------------------------------------


async def tell(store: Stores, clock: ManualClock, count: int) -> Job:
    """A job with `count` events, ten seconds apart, the last one now."""
    job = await run_one(store)
    for _ in range(count - 1):
        clock.advance(10)
        job = await settled(store, change.advance(job, tally(), {}))
    return job


async def test_old_events_are_pruned_and_young_ones_kept(store: Stores, clock: ManualClock) -> None:
    # Given five events, 40, 30, 20, 10 and 0 seconds old
    job = await tell(store, clock, 5)

    # When those older than twenty seconds are pruned
    pruned = await store.events.prune_events(older_than=timedelta(seconds=20), limit=100)

    # Then two are gone, and the job is as it was
    assert pruned == 2
    assert await kinds(store, job.id) == ["chunk"] * 3
    assert await store.jobs.get(job.id) == job


async def test_one_prune_deletes_at_most_its_limit_the_oldest_first(
    store: Stores, clock: ManualClock
) -> None:
    # Given five old events
    job = await tell(store, clock, 5)
    told = await store.events.list_events(job.id, after=0, limit=100)
    clock.advance(3600)

    # When they are pruned two at a time
    pruned, left = [], []
    for _ in range(4):
        pruned.append(await store.events.prune_events(older_than=timedelta(seconds=20), limit=2))
        left.append(await store.events.list_events(job.id, after=0, limit=100))

    # Then each round took the two oldest that were left
    assert pruned == [2, 2, 1, 0]
    assert left == [told[2:], told[4:], [], []]


async def test_an_event_after_a_prune_gets_an_id_of_its_own(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job all of whose events are pruned
    job = await tell(store, clock, 3)
    [*_, last] = await store.events.list_events(job.id, after=0, limit=100)
    clock.advance(3600)
    await store.events.prune_events(older_than=timedelta(0), limit=100)

    # When the next thing is told
    await settled(store, change.advance(job, tally(), {}))

    # Then a reader that has seen the last event still sees the new one
    assert [
        event.kind for event in await store.events.list_events(job.id, after=last.id, limit=9)
    ] == ["chunk"]
