"""The fence: a change made under a claim that is no longer the row's writes nothing at all."""

from collections.abc import Callable
from datetime import date, timedelta

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job
from headgate.model.lease import Claim
from headgate.model.record import Coverage, Record
from headgate.model.states import DayStatus, JobState
from headgate.ports.store import Work
from headgate.store.sql.store import SqlStore
from tests.conformance.changes import CASES
from tests.stores import LEASE, claim_one, everything, run_one, settled, submit_one, tally

WORK = Work(
    records=[Record("record_1", {"text": "late"})],
    coverage=Coverage(day=date(2025, 12, 31), status=DayStatus.HELD, records=1),
)


async def refused(store: SqlStore, wanted: JobChange) -> None:
    """Apply the change with a chunk's work, and see that neither leaves a trace."""
    before = await everything(store)
    assert await store.settle(wanted, WORK) is None
    assert await everything(store) == before


async def test_the_fence_lets_its_holder_through(store: SqlStore) -> None:
    running = await run_one(store)

    assert await store.settle(change.advance(running, tally(), {}), WORK) is not None

    rows = await everything(store)
    assert len(rows["records"]) == len(rows["coverage"]) == 1


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.source is JobState.RUNNING]
)
async def test_nothing_that_a_lost_worker_does_is_written(
    store: SqlStore, clock: ManualClock, name: str
) -> None:
    # Given a worker that was taken for dead, and another that has the job now
    zombie = await run_one(store)
    clock.advance(61)
    await settled(store, change.rescue(zombie, after=timedelta(0)))
    current = await claim_one(store, worker="worker_2")

    # When the first comes back and settles, then nothing is written
    await refused(store, CASES[name].make(zombie))
    # And its heartbeat is not heard either
    before = await everything(store)
    assert await store.extend([Claim(zombie.id, zombie.token)], lease=LEASE) == {}
    assert await everything(store) == before
    assert await store.get(zombie.id) == current


async def test_a_released_claim_is_shut_out_before_anybody_claims_again(store: SqlStore) -> None:
    running = await run_one(store)
    await settled(store, change.release(running))

    await refused(store, change.advance(running, tally(), {}))


async def test_what_was_read_before_the_last_checkpoint_does_not_overwrite_it(
    store: SqlStore,
) -> None:
    # Given an operator who read the job before its worker's last checkpoint
    running = await run_one(store)
    await settled(store, change.advance(running, tally(cursor="second"), {}))

    # When the operator's change comes, then it must be made anew
    await refused(store, change.ask_pause(running))
    assert (await store.get(running.id)).cursor == "second"


async def test_the_same_chunk_settled_twice_counts_once(store: SqlStore) -> None:
    # Given a chunk that was settled, but whose answer was lost
    running = await run_one(store)
    wanted = change.advance(running, tally(), {})
    await settled(store, wanted)

    # When it is settled again, then nothing is written
    await refused(store, wanted)


async def test_a_rescue_needs_the_lease_that_was_seen_to_run_out(
    store: SqlStore, clock: ManualClock
) -> None:
    # Given a sweeper that saw a lease run out
    running = await run_one(store)
    clock.advance(61)
    [seen] = await store.expired(limit=10)

    # When the worker's late heartbeat comes first
    await store.extend([Claim(running.id, running.token)], lease=LEASE)

    # Then neither rescue nor giving up takes the job from it
    await refused(store, change.rescue(seen, after=timedelta(0)))
    await refused(store, change.give_up(seen))


async def test_a_job_that_does_not_exist_is_not_made(store: SqlStore) -> None:
    running = await run_one(store)

    await refused(
        store, change.advance(msgspec.structs.replace(running, id="job_unknown"), tally(), {})
    )


@pytest.mark.parametrize(
    "forge",
    [
        lambda job: msgspec.structs.replace(job, token=job.token - 1),
        lambda job: msgspec.structs.replace(job, token=job.token + 1),
        lambda job: msgspec.structs.replace(job, steps=job.steps + 1),
        lambda job: msgspec.structs.replace(job, steps=job.steps - 1),
    ],
    ids=["token below", "token above", "steps above", "steps below"],
)
async def test_token_and_steps_must_both_be_the_rows(
    store: SqlStore, forge: Callable[[Job], Job]
) -> None:
    first = await run_one(store)
    running = await settled(store, change.advance(first, tally(), {}))

    await refused(store, change.advance(forge(running), tally(), {}))


async def test_of_two_operators_only_the_first_takes_effect(store: SqlStore) -> None:
    # Given two who read the same pending job
    pending = await submit_one(store)
    await settled(store, change.cancel(pending))

    # When the second acts on what is no longer so, then nothing is written
    await refused(store, change.cancel(pending))
    await refused(store, change.pause(pending))
