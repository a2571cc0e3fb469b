"""Claims of jobs while they last: extended by their workers, and found when they have ended."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from headgate.base.errors import StoreUnavailable
from headgate.model.job import Job
from headgate.model.lease import AT_ONCE, Claim
from headgate.model.states import JOB, JobState
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Update, set_and_remove
from headgate.store.dynamodb.jobs.rows import (
    CODEC,
    claim_ends_at,
    claimed_shards,
    place_by_state,
    read_jobs,
    time_of,
)

#: How often a lease is extended anew because others have changed the row meanwhile.
TRIES_MAX = 10
#: The most claims, of all workers, among which those of one that died are looked for.
EXPIRE_MAX = 5_000


def claimed_index(job_id: str, until: datetime) -> Attributes:
    """The place of a claimed job among those whose lease ends."""
    partition = keys.join("claimed", JOB.name, keys.shard_of(job_id))
    return keys.index_attributes(BY_STATE, partition, keys.join(keys.time_text(until), job_id))


def claimed_ranges(last: str | None = None) -> list[KeyRange]:
    """The claimed jobs in the index, up to the end `last` of their claims."""
    return [KeyRange(pk=each, last=last, index=BY_STATE) for each in claimed_shards()]


async def extend(
    table: DynamoTable, claims: Sequence[Claim], /, *, lease: timedelta
) -> Mapping[str, JobState]:
    """Extend the leases of these claims; returns the states of the jobs still so claimed."""
    # A job may be asked for twice, under two tokens.
    states = await gather(_extend(table, each, lease) for each in claims)
    return {
        claim.id: state for claim, state in zip(claims, states, strict=True) if state is not None
    }


async def _extend(table: DynamoTable, claim: Claim, lease: timedelta) -> JobState | None:
    until = table.now() + lease
    state = JOB.claim.target
    index = claimed_index(claim.id, until)
    for _ in range(TRIES_MAX):
        written = {"lease_until": plain(until), **index}
        update = Update(
            at=keys.job(claim.id),
            change=set_and_remove(written),
            condition="#token = :token AND #state = :state",
            values={**written, "token": claim.token, "state": state.value},
        )
        try:
            await table.write(update)
        except ConditionFailed as failed:
            [found] = failed.found
            if found is None or not _is_claimed(found, claim.token):
                return None
            # Claimed, but in another state, in which the index may name another time.
            job = replace(CODEC.from_item(found), lease_until=until)
            state, index = job.state, place_by_state(job)
        else:
            return state
    raise StoreUnavailable(f"the job {claim.id!r} keeps changing")


def _is_claimed(item: Attributes, token: int) -> bool:
    return item["token"] == token and JobState(item["state"]) in JOB.claimed


async def list_expired(table: DynamoTable, *, limit: int) -> Sequence[Job]:
    """Jobs whose claim has ended by itself, the longest ago first."""
    now = table.now()
    ranges = claimed_ranges(keys.time_text(now))
    jobs = await read_jobs(table, await table.query_shards(BY_STATE, ranges, limit=limit))
    ended = [(claim_ends_at(job), job) for job in jobs if job.state in JOB.claimed]
    late = [(at, job) for at, job in ended if at is not None and at < now]
    # The index may be behind: a job may have been extended, or settled.
    return [job for _, job in sorted(late, key=lambda each: each[0])]


async def expire(table: DynamoTable, worker: str, /) -> int:
    """Let the leases of a worker that has died expire now; returns how many."""
    now = table.now()
    entries = await table.query_shards(BY_STATE, claimed_ranges(), limit=EXPIRE_MAX)
    theirs = [
        Claim(job.id, job.token)
        for job in await read_jobs(table, entries)
        if job.worker == worker and job.lease_until is not None and job.lease_until > now
    ]
    return len(await extend(table, theirs, lease=AT_ONCE))


async def first_s(table: DynamoTable, ranges: Sequence[KeyRange]) -> float | None:
    """Seconds until the first time in these ranges of `BY_STATE`, at least 0."""
    entries = await table.query_shards(BY_STATE, ranges, limit=1)
    if not entries:
        return None
    return max(0.0, (time_of(entries[0]) - table.now()).total_seconds())
