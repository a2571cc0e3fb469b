"""Counts of jobs, and how long they wait, for operators; they read entries of an index."""

from collections.abc import Mapping, Sequence

from headgate.model.job import Lane
from headgate.model.states import JOB, JobState
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.jobs.claims import pending_ranges
from headgate.store.dynamodb.jobs.leases import claimed_ranges
from headgate.store.dynamodb.jobs.recovery import COUNT_MAX, breaker_entries
from headgate.store.dynamodb.jobs.rows import (
    pending_shards,
    recovering_shards,
    state_shards,
    time_of,
)


async def count_jobs(
    table: DynamoTable, *, syncs: Sequence[str]
) -> Mapping[str, Mapping[JobState, int]]:
    """How many jobs of each of these syncs are in each state, zero included."""
    counted = {sync: dict.fromkeys(JOB.states, 0) for sync in syncs}
    for entry in await table.query_shards(BY_STATE, claimed_ranges(), limit=COUNT_MAX):
        if entry["sync"] in counted:
            counted[entry["sync"]][JobState(entry["state"])] += 1
    for entry in await breaker_entries(table, syncs=syncs):
        counted[entry["sync"]][JobState.PAUSED] += 1
    for sync, of_sync in counted.items():
        pending = [each for lane in Lane for each in pending_shards(lane, sync)]
        of_sync[JobState.PENDING] = await _count(table, pending)
        waiting = [*recovering_shards(sync), *state_shards(JobState.PAUSED, sync)]
        of_sync[JobState.PAUSED] += await _count(table, waiting)
        for state in JOB.terminal:
            of_sync[state] = await _count(table, state_shards(state, sync))
    return counted


async def _count(table: DynamoTable, partitions: Sequence[str]) -> int:
    return await table.count_shards([KeyRange(pk=each, index=BY_STATE) for each in partitions])


async def oldest_due_s(table: DynamoTable, *, syncs: Sequence[str]) -> Mapping[Lane, float]:
    """How long the oldest due job of each lane has waited; 0 if none waits."""
    waited = await gather(_waited_s(table, lane, syncs) for lane in Lane)
    return dict(zip(Lane, waited, strict=True))


async def _waited_s(table: DynamoTable, lane: Lane, syncs: Sequence[str]) -> float:
    entries = await table.query_shards(BY_STATE, pending_ranges(lane, syncs), limit=1)
    if not entries:
        return 0.0
    return max(0.0, (table.now() - time_of(entries[0])).total_seconds())
