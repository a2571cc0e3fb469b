"""Jobs as rows: their attributes, and their places in the indexes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headgate.base.errors import NotFound
from headgate.model.change import JOBS
from headgate.model.job import Job, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import RowAttribute
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import (
    BY_CONNECTION,
    BY_STATE,
    BY_SYNC,
    BY_USER,
    index_keys,
)
from headgate.store.dynamodb.engine.rows import RowCodec, plain
from headgate.store.dynamodb.engine.table import DynamoTable

CODEC = RowCodec(JOBS.row)


def fixed_attributes(job: Job) -> Attributes:
    """The places of a job in the indexes that never change."""
    shard = keys.shard_of(job.id)
    entry = keys.join("job", job.id)
    return {
        **keys.index_attributes(BY_USER, keys.join("user", job.user_id), entry),
        **keys.index_attributes(BY_CONNECTION, keys.join("connection", job.connection_id), entry),
        **keys.index_attributes(BY_SYNC, keys.join("job", job.sync, shard), entry),
    }


def further_attributes(fields: Mapping[str, Any], attributes: Sequence[RowAttribute]) -> Attributes:
    """The further attributes that are made of these fields of a job; None where there is none."""
    made: Attributes = {}
    for each in attributes:
        if each.field in fields:
            value = fields[each.field]
            convert = plain if value is None or each.convert is None else each.convert
            made[each.name] = convert(value)
    return made


def all_further_attributes(job: Job, attributes: Sequence[RowAttribute]) -> Attributes:
    """All further attributes of a job."""
    return further_attributes(
        {each.field: getattr(job, each.field) for each in attributes}, attributes
    )


def place_by_state(job: Job) -> Attributes:
    """The job's place in the index by state: for what happens next, at the time when it does."""
    shard = keys.shard_of(job.id)
    match job.state:
        case JobState.PENDING:
            pk = keys.join("pending", job.lane, job.sync, shard)
        case JobState.PAUSED if job.reason is Reason.BREAKER:
            pk = keys.join("breaker", job.provider, shard)
        case JobState.PAUSED if job.reason is Reason.RECOVERING:
            pk = keys.join("recovering", job.sync, shard)
        case state if state in JOB.claimed:
            pk = keys.join("claimed", JOB.name, shard)
        case state:
            pk = keys.join(state.value, job.sync, shard)
    at = claim_ends_at(job) if job.state in JOB.claimed else job.wake_at
    sk = keys.join(job.id) if at is None else keys.join(keys.time_text(at), job.id)
    return keys.index_attributes(BY_STATE, pk, sk)


def claim_ends_at(job: Job) -> datetime | None:
    """When a worker's claim ends by itself: with its lease, or at the deadline of a cancel."""
    times = [job.lease_until]
    if job.state is JobState.CANCELLING:
        times.append(job.wake_at)
    return min((time for time in times if time is not None), default=None)


def time_of(entry: Attributes) -> datetime:
    """The time at the beginning of an entry's sort key in `BY_STATE`."""
    text = str(entry[index_keys(BY_STATE)[1]]).partition("#")[0]
    return datetime.fromisoformat(text)


def job_id_of(entry: Attributes) -> str:
    """The id of the job of an entry of an index."""
    return keys.unescape(str(entry["pk"]).removeprefix("job#"))


# ---- partitions of the indexes -----------------------------------------------------------------


def pending_shards(lane: str, sync: str) -> list[str]:
    """The partitions of pending jobs, by the time when they are due."""
    return keys.shards("pending", lane, sync)


def claimed_shards() -> list[str]:
    """The partitions of claimed jobs, by the time when their claims end."""
    return keys.shards("claimed", JOB.name)


def breaker_shards(provider: str) -> list[str]:
    """The partitions of jobs that the breaker has paused, by the end of their cool-down."""
    return keys.shards("breaker", provider)


def recovering_shards(sync: str) -> list[str]:
    """The partitions of jobs whose provider has recovered, by the time when they may go on."""
    return keys.shards("recovering", sync)


def state_shards(state: JobState, sync: str) -> list[str]:
    """The partitions of jobs that have ended or that an operator has paused, by their ids."""
    return keys.shards(state.value, sync)


def sync_shards(sync: str) -> list[str]:
    """The partitions of all jobs of a sync, by their ids."""
    return keys.shards("job", sync)


# ---- reading -----------------------------------------------------------------------------------


async def read_jobs(table: DynamoTable, entries: Sequence[Attributes]) -> list[Job]:
    """The jobs of these entries of an index, as they are now, in the same order."""
    wanted = [(entry["pk"], entry["sk"]) for entry in entries]
    found = await table.get_many(wanted)
    return [CODEC.from_item(found[key]) for key in wanted if key in found]


async def get(table: DynamoTable, job_id: str, /, *, user_id: str | None = None) -> Job:
    """The job; NotFound if it does not exist or belongs to another user."""
    item = await table.get(keys.job(job_id))
    if item is None or (user_id is not None and item["user_id"] != user_id):
        raise NotFound(f"there is no {JOB.name} {job_id!r}")
    return CODEC.from_item(item)
