"""Lists of jobs, each from the index that fits its filter best."""

from collections.abc import Sequence

from headgate.model.job import Job
from headgate.model.states import JOB
from headgate.ports.jobs.store import JobFilter
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import (
    BY_CONNECTION,
    BY_STATE,
    BY_SYNC,
    BY_USER,
    index_keys,
)
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.jobs.rows import CODEC, read_jobs, state_shards, sync_shards

#: The most jobs that one list looks at, where its filter has no index of its own.
LOOK_MAX = 10_000
#: The fewest that are read at once.
_PAGE_MIN = 50


async def list_jobs(
    table: DynamoTable,
    job_filter: JobFilter,
    *,
    syncs: Sequence[str],
    limit: int,
    before: str | None = None,
) -> Sequence[Job]:
    """Jobs, newest first, older than the id `before`.

    Without a user, a connection or a sync, only those of these syncs.
    """
    if _is_active_one(job_filter):
        found = await _active_job(table, job_filter)
        return [job for job in found if before is None or job.id < before][:limit]
    index, partitions, prefix = _partitions(job_filter, syncs)
    jobs: list[Job] = []
    page = max(_PAGE_MIN, limit)
    for _ in range(0, LOOK_MAX, page):
        ranges = [
            KeyRange(
                pk=each,
                first=prefix or None,
                last=prefix + (keys.LAST if before is None else keys.join(before)),
                index=index,
                newest_first=True,
            )
            for each in partitions
        ]
        entries = await table.query_shards(index, ranges, limit=page + 1)
        rows = await read_jobs(table, entries)
        # The last sort key is included, so the job `before` comes again.
        jobs += [job for job in rows if job.id != before and _matches(job, job_filter)]
        if len(jobs) >= limit or len(entries) <= page:
            break
        before = _id_of(entries[-1], index, prefix)
    return jobs[:limit]


def _partitions(wanted: JobFilter, syncs: Sequence[str]) -> tuple[str, list[str], str]:
    """The index for a filter, its partitions, and how the sort keys of jobs begin in it."""
    prefix = "job#"
    if wanted.connection_id is not None:
        return BY_CONNECTION, [keys.join("connection", wanted.connection_id)], prefix
    if wanted.user_id is not None:
        return BY_USER, [keys.join("user", wanted.user_id)], prefix
    among = syncs if wanted.sync is None else [wanted.sync]
    if wanted.states and set(wanted.states) <= set(JOB.terminal):
        shards = [
            shard
            for sync in among
            for state in wanted.states
            for shard in state_shards(state, sync)
        ]
        return BY_STATE, shards, ""
    return BY_SYNC, [shard for sync in among for shard in sync_shards(sync)], prefix


async def _active_job(table: DynamoTable, wanted: JobFilter) -> list[Job]:
    """The active job of a sync and connection by its lock, which is never behind."""
    assert wanted.sync is not None and wanted.connection_id is not None
    lock = await table.get(keys.active_job(wanted.sync, wanted.connection_id))
    item = None if lock is None else await table.get(keys.job(lock["job_id"]))
    found = [] if item is None else [CODEC.from_item(item)]
    return [job for job in found if _matches(job, wanted)]


def _is_active_one(wanted: JobFilter) -> bool:
    """Whether only the one active job of a sync and connection can match."""
    named = wanted.sync is not None and wanted.connection_id is not None
    return named and bool(wanted.states) and set(wanted.states) <= set(JOB.active)


def _matches(job: Job, wanted: JobFilter) -> bool:
    for name in ("user_id", "sync", "connection_id", "mode"):
        value = getattr(wanted, name)
        if value is not None and getattr(job, name) != value:
            return False
    return not wanted.states or job.state in wanted.states


def _id_of(entry: Attributes, index: str, prefix: str) -> str:
    sk = str(entry[index_keys(index)[1]]).removeprefix(prefix)
    return keys.unescape(sk)
