"""Claiming: who gets which jobs, when, and what the row says then."""

from datetime import timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Lane, Reason
from headgate.model.states import JobState
from headgate.store.sql.jobs import queue
from tests.store_bundles import SqlStores, Stores
from tests.stores import (
    LEASE,
    START,
    claim_ids,
    claim_one,
    everything,
    ids,
    in_state,
    new_job,
    run_one,
    settled,
    submit_all,
    submit_one,
    tally,
)


async def test_a_claim_takes_as_many_as_its_limit_and_as_there_are(store: Stores) -> None:
    submitted = [await submit_one(store) for _ in range(5)]

    # At most three, and then the two that are left
    for taken in (submitted[:3], submitted[3:]):
        claimed = await store.jobs.claim(Lane.COLD, worker="w", limit=3, lease=LEASE)
        assert sorted(ids(claimed.jobs)) == ids(taken)
        assert claimed.next_due_s is None

    # An empty line gives nothing, and nothing is written
    before = await everything(store)

    claimed = await store.jobs.claim(Lane.HOT, worker="w", limit=10, lease=LEASE)

    assert list(claimed.jobs) == []
    assert claimed.next_due_s is None
    assert await everything(store) == before


async def test_only_pending_jobs_are_claimed(store: Stores) -> None:
    for state in [state for state in JobState if state is not JobState.PENDING]:
        await in_state(store, state)

        assert await claim_ids(store, 1) == []


async def test_lanes_do_not_take_each_others_jobs(store: Stores) -> None:
    # Given one job in each lane, and one asleep in the hot one
    cold = await submit_one(store, lane=Lane.COLD)
    hot = await submit_one(store, lane=Lane.HOT)
    await submit_one(store, lane=Lane.HOT, delay_s=7)

    # When each lane claims all it can
    of_hot = await store.jobs.claim(Lane.HOT, worker="w", limit=10, lease=LEASE)
    of_cold = await store.jobs.claim(Lane.COLD, worker="w", limit=10, lease=LEASE)

    # Then each has its own, and hears only of its own sleeper
    assert (ids(of_hot.jobs), of_hot.next_due_s) == ([hot.id], 7.0)
    assert (ids(of_cold.jobs), of_cold.next_due_s) == ([cold.id], None)


async def test_jobs_of_one_user_come_in_the_order_of_their_submission(store: Stores) -> None:
    submitted = [await submit_one(store) for _ in range(5)]

    assert await claim_ids(store, 5) == ids(submitted)


async def test_a_later_claim_goes_up_one_token_and_keeps_the_first_start(
    store: Stores, clock: ManualClock
) -> None:
    # Given a job that has run a slice and is back in line
    first = await run_one(store)
    assert (first.reason, first.started_at, first.created_at) == (Reason.WORKING, START, START)
    await settled(store, change.rest(first, tally(), {}))

    # When it is claimed again, later
    clock.advance(60)
    second = await claim_one(store, worker="worker_2")

    # Then the claim is a new one, and the job began when it first began
    assert second.token == first.token + 1
    assert second.worker == "worker_2"
    assert second.started_at == START
    assert second.updated_at == START + timedelta(seconds=60)


# ---- sleepers ----------------------------------------------------------------------------------


async def test_a_sleeper_is_not_claimed_before_it_is_due(store: Stores, clock: ManualClock) -> None:
    # Given a job that sleeps for a minute
    job = await submit_one(store, delay_s=60)

    # When a worker looks too early, and again at the very moment
    clock.advance(59.5)
    early = await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)
    clock.advance(0.5)
    in_time = await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)

    # Then it gets nothing but the time to wait, and then the job
    assert (ids(early.jobs), early.next_due_s) == ([], 0.5)
    assert ids(in_time.jobs) == [job.id]


async def test_sleepers_join_the_line_in_the_order_in_which_they_wake(
    store: Stores, clock: ManualClock
) -> None:
    # Given sleepers that were submitted in another order than they wake in
    third = await submit_one(store, delay_s=30)
    first = await submit_one(store, delay_s=10.25)
    second = await submit_one(store, delay_s=20)
    claimed = await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)
    assert (claimed.jobs, claimed.next_due_s) == ([], 10.25)

    # When all are due
    clock.advance(60)

    # Then they come in the order in which they woke
    assert await claim_ids(store, 3) == ids([first, second, third])


async def test_a_sleeper_that_wakes_goes_behind_its_users_jobs_in_line(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    sleeper = await submit_one(sql_store, delay_s=10)
    in_line = [await submit_one(sql_store) for _ in range(3)]

    clock.advance(60)

    assert await claim_ids(sql_store, 4) == [*ids(in_line), sleeper.id]


async def test_more_sleepers_than_one_claim_wakes_are_all_claimed_in_the_end(
    sql_store: SqlStores, clock: ManualClock
) -> None:
    # Given more due sleepers than a claim wakes at once
    sleepers = await submit_all(sql_store, [new_job(delay_s=1) for _ in range(queue.WAKE_MAX + 10)])
    clock.advance(60)

    # When a worker that takes them all claims, and claims again because it is told to at once
    first = await sql_store.jobs.claim(Lane.COLD, worker="w", limit=1000, lease=LEASE)
    second = await sql_store.jobs.claim(Lane.COLD, worker="w", limit=1000, lease=LEASE)

    # Then it has them all
    assert (len(first.jobs), first.next_due_s) == (queue.WAKE_MAX, 0.0)
    assert (len(second.jobs), second.next_due_s) == (10, None)
    assert sorted(ids([*first.jobs, *second.jobs])) == ids(sleepers)


@pytest.mark.parametrize("ends", ["retry", "defer"])
async def test_a_job_put_off_sleeps_until_its_time(
    store: Stores, clock: ManualClock, ends: str
) -> None:
    # Given a job whose chunk is put off for half a minute
    running = await run_one(store)
    later = timedelta(seconds=30)
    if ends == "retry":
        wanted = change.retry(running, after=later, error="no", recent_errors=())
    else:
        wanted = change.defer(running, after=later, reason=Reason.DEFERRED, note="wait")
    await settled(store, wanted)

    # When a worker looks before and after
    early = await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)
    clock.advance(30)
    again = await claim_one(store)

    # Then it is there only after
    assert (ids(early.jobs), early.next_due_s) == ([], 30.0)
    assert again.id == running.id
    # And if it is deferred until a moment gone by, it is in line at once
    past = timedelta(hours=-1)
    await settled(store, change.defer(again, after=past, reason=Reason.DEFERRED, note="clock"))
    assert (await claim_one(store)).id == running.id
