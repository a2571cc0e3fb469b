"""Counting: jobs by sync and state, open breakers by provider, how long the oldest has waited."""

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Lane
from headgate.model.states import JobState
from tests.store_bundles import Stores
from tests.stores import in_state, run_one, settled, shut_one, store_for, submit_one, tally


async def test_jobs_are_counted_in_every_state_of_the_declared_syncs_alone(store: Stores) -> None:
    # Given a job in each state, two of them of another sync, and one of a sync nobody declared
    await in_state(store, JobState.SUCCESS, sync="other")
    # Whoever waits comes last: what is to be claimed must be alone in line.
    for state in sorted(JobState, key=lambda each: each is JobState.PENDING):
        await in_state(store, state)
    await submit_one(store, sync="other")
    await submit_one(store, sync="not declared")

    counted = await store.jobs.count_jobs()

    others = dict.fromkeys(JobState, 0) | {JobState.SUCCESS: 1, JobState.PENDING: 1}
    assert counted == {"notes": dict.fromkeys(JobState, 1), "other": others}


async def test_breakers_are_counted_by_the_provider_to_blame(store: Stores) -> None:
    # Given two that the breaker has paused, one that an operator has, and one of a stranger's
    for _ in range(2):
        await shut_one(store, source="shelf")
    await settled(store, change.pause(await submit_one(store)))
    stranger = store_for(store, ["elsewhere"])
    await shut_one(stranger, source="shelf", sync="elsewhere")

    assert await store.breakers.open_breakers() == {"shelf": 2}
    assert await stranger.breakers.open_breakers() == {"shelf": 1}


async def test_the_oldest_due_job_of_a_lane_is_the_one_that_waits_longest(
    store: Stores, clock: ManualClock
) -> None:
    # Given a line in which the user of the first has a second, and another joins later
    await submit_one(store, lane=Lane.COLD, user_id="ada")
    clock.advance(10)
    await submit_one(store, lane=Lane.COLD, user_id="bob", sync="other")
    clock.advance(20)

    assert await store.jobs.oldest_due_s() == {Lane.COLD: 30.0, Lane.HOT: 0.0}


async def test_a_job_that_sleeps_counts_from_when_it_comes_due(
    store: Stores, clock: ManualClock
) -> None:
    await submit_one(store, lane=Lane.HOT, delay_s=60)
    clock.advance(59)
    assert (await store.jobs.oldest_due_s())[Lane.HOT] == 0.0
    clock.advance(6)
    assert (await store.jobs.oldest_due_s())[Lane.HOT] == 5.0


async def test_a_job_that_a_worker_has_or_that_has_ended_does_not_wait(
    store: Stores, clock: ManualClock
) -> None:
    running = await run_one(store, lane=Lane.COLD)
    clock.advance(30)
    assert (await store.jobs.oldest_due_s())[Lane.COLD] == 0.0
    # One that rests waits anew.
    await settled(store, change.rest(running, tally(), {}))
    clock.advance(3)
    assert (await store.jobs.oldest_due_s())[Lane.COLD] == 3.0


async def test_another_application_s_jobs_are_not_counted(
    store: Stores, clock: ManualClock
) -> None:
    await shut_one(store)
    await submit_one(store)
    clock.advance(5)

    for syncs in ([], ["elsewhere"]):
        other = store_for(store, syncs)

        assert await other.jobs.count_jobs() == {sync: dict.fromkeys(JobState, 0) for sync in syncs}
        assert await other.breakers.open_breakers() == {}
        assert await other.jobs.oldest_due_s() == {Lane.HOT: 0.0, Lane.COLD: 0.0}
