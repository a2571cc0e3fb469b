"""Many workers on one table that fails at random: whatever happens, no job is lost or doubled."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Lane
from headgate.model.record import Record
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import ChunkWork
from tests import dynamo
from tests.dynamo_faults import at_random
from tests.profiles import seeds
from tests.store_bundles import DynamoStores
from tests.stores import LEASE, SYNCS, kinds, new_job, tally

JOBS_MAX = 6
CHUNKS = 3
WORKERS = 3
#: Rounds in which each worker does one thing; far more than it takes.
ROUNDS_MAX = 400
FAULTS = 0.05
#: Of all steps of a worker, how many end with its death.
CRASHES = 0.1


class World:
    """Workers on one table, each with a client of its own, and what they have seen."""

    def __init__(self, stores: list[DynamoStores], clock: ManualClock, rng: random.Random) -> None:
        self.stores = stores
        self.clock = clock
        self.rng = rng
        #: The claims that workers believe to have, by worker.
        self.claims: dict[int, Job] = {}
        #: Every claim that was ever given, by job and token.
        self.given: Counter[tuple[str, int]] = Counter()

    async def step(self, worker: int) -> None:
        """Let a worker do one thing; what the table refuses, it forgets."""
        try:
            await self._step(worker, self.stores[worker])
        except StoreError:
            # As after a crash: whether it was written is unknown.
            self.claims.pop(worker, None)

    async def _step(self, worker: int, store: DynamoStores) -> None:
        job = self.claims.get(worker)
        if job is None:
            claimed = await store.jobs.claim(Lane.COLD, worker=f"w{worker}", limit=1, lease=LEASE)
            for each in claimed.jobs:
                self.given[each.id, each.token] += 1
                self.claims[worker] = each
            return
        if self.rng.random() < CRASHES:
            del self.claims[worker]
            return
        after = await store.jobs.settle(self._next(job), work_of(job))
        if after is None or after.state not in JOB.claimed:
            del self.claims[worker]
        else:
            self.claims[worker] = after

    def _next(self, job: Job) -> JobChange:
        result = tally(cursor=job.steps + 1, **_summed(job))
        if job.steps + 1 == CHUNKS:
            return change.succeed(job, result, {})
        if self.rng.random() < 0.5:
            return change.rest(job, result, {})
        return change.advance(job, result, {})

    async def sweep(self, store: DynamoStores) -> None:
        """Rescue what is lost, as a rescuer does."""
        try:
            lost = await store.jobs.list_expired(limit=50)
            await store.jobs.settle_many(
                [(change.rescue(job, after=timedelta(0)), None) for job in lost]
            )
        except StoreError:
            pass


def _summed(job: Job) -> Mapping[str, int]:
    names = ("inserted", "updated", "unchanged", "crashes")
    return {name: getattr(job.summary, name) for name in names}


def work_of(job: Job) -> ChunkWork:
    """The chunk of a job's present step: some of them too large for one transaction."""
    count = 120 if job.steps == 1 and job.id.endswith("0") else 3
    return ChunkWork(
        records=[Record(f"{job.steps}_{n}", {"step": job.steps, "n": n}) for n in range(count)]
    )


@pytest.mark.fault(1)
@pytest.mark.parametrize("seed", seeds(3, first=1))
async def test_no_job_is_lost_or_doubled_whatever_fails(
    ministack_address: str, clock: ManualClock, seed: int
) -> None:
    rng = random.Random(seed)
    first = await dynamo.new_table(ministack_address, clock)
    others = [dynamo.table_on(ministack_address, first.name, clock) for _ in range(WORKERS)]
    for table in others:
        await table.open()
    try:
        calm = DynamoStores(first, SYNCS)
        world = World([DynamoStores(table, SYNCS) for table in others], clock, rng)
        wanted = [new_job(job_id=f"job_{n}", user_id=f"u{n % 2}") for n in range(JOBS_MAX)]
        await calm.jobs.submit_many(wanted)
        for table in others:
            dynamo.client_of(table).choose = at_random(rng, FAULTS)
        await run_until_ended(world, calm, [new.id for new in wanted])
        for new in wanted:
            await check(calm, new.id, world)
    finally:
        for table in (first, *others):
            await table.close()


async def run_until_ended(world: World, calm: DynamoStores, ids: list[str]) -> None:
    """Let workers and rescuers run until every job has ended."""
    for _ in range(ROUNDS_MAX):
        await asyncio.gather(*(world.step(worker) for worker in range(WORKERS)))
        if world.rng.random() < 0.2:
            world.clock.advance(LEASE.total_seconds() + 1)
            await world.sweep(world.rng.choice(world.stores))
        if all(await asyncio.gather(*(has_ended(calm, job_id) for job_id in ids))):
            return
    raise AssertionError("some jobs never end")


async def has_ended(store: DynamoStores, job_id: str) -> bool:
    return (await store.jobs.get(job_id)).ended


async def check(store: DynamoStores, job_id: str, world: World) -> None:
    """What must hold of a job that has ended."""
    job = await store.jobs.get(job_id)
    assert (job.state, job.steps) == (JobState.SUCCESS, CHUNKS)
    # No two workers ever had the same claim.
    assert max(world.given.values()) == 1
    # Every record of every chunk is there once, and was counted once.
    expected = [
        record.key for step in range(CHUNKS) for record in work_of(_at_step(job, step)).records
    ]
    stored = await store.records.list_records(job.sync, job.connection_id, limit=1000)
    assert sorted(record.key for record in stored) == sorted(expected)
    assert (job.summary.inserted, job.summary.updated) == (len(expected), 0)
    # The events tell a way through the states, with each chunk once.
    told = await kinds(store, job_id)
    assert told[0] == "submitted"
    assert told[-1] == "succeeded"
    assert told.count("chunk") == CHUNKS - 1
    assert set(told) <= {"submitted", "chunk", "rescued", "succeeded"}
    # Each rescue is of a claim, and counts one crash.
    assert told.count("rescued") == job.summary.crashes
    # The locks are gone: another job may begin.
    assert (await store.jobs.submit(new_job(connection_id=job.connection_id))).created


def _at_step(job: Job, step: int) -> Job:
    return replace(job, steps=step)
