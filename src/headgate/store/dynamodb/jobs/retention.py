"""The retention of jobs: those that ended long ago are deleted, with their events and keys.

What is still asked of old jobs is kept: a user's last job of each sync and connection, and the last
one that succeeded.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.ports.jobs.store import JobFilter, PrunedJobs
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes, key_of
from headgate.store.dynamodb.engine.definition import BY_SYNC
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Delete, Write
from headgate.store.dynamodb.jobs.lists import list_jobs
from headgate.store.dynamodb.jobs.rows import read_jobs, sync_shards

#: The most jobs of a connection that are looked at for a later one, and how many at a time: the
#: newest first, so that the first few are enough for almost every job.
_OTHERS_MAX, _OTHERS_PAGE = 1000, 50


async def prune_jobs(
    table: DynamoTable,
    *,
    syncs: Sequence[str],
    older_than: timedelta,
    limit: int,
    after: str | None = None,
) -> PrunedJobs:
    """Look at `limit` jobs of these syncs in the order of their ids, and delete those that may go.

    Ids sort by the time of creation, so the walk ends at the first job that is too young.
    """
    before = table.now() - older_than
    first = "job#" if after is None else keys.join("job", after)
    ranges = [
        KeyRange(pk=shard, first=first, last=f"job#{keys.LAST}", index=BY_SYNC)
        for sync in syncs
        for shard in sync_shards(sync)
    ]
    entries = await table.query_shards(BY_SYNC, ranges, limit=limit + 1)
    jobs = [job for job in await read_jobs(table, entries) if job.id != after][:limit]
    old = [job for job in jobs if job.created_at < before]
    gone = 0
    for job in old:
        gone += await _prune_if_old(table, job, before)
    return PrunedJobs(count=gone, after=old[-1].id if len(old) == limit else None)


async def _prune_if_old(table: DynamoTable, job: Job, before: datetime) -> bool:
    """Delete the job if it ended before then and is not the last of its kind."""
    if job.finished_at is None or job.finished_at >= before:
        return False
    return await _has_later(table, job) and await _delete_job(table, job)


async def _has_later(table: DynamoTable, job: Job) -> bool:
    """Whether a job of the same user, sync and connection ended later, as well as this one."""
    same = JobFilter(user_id=job.user_id, sync=job.sync, connection_id=job.connection_id)
    before: str | None = None
    for _ in range(0, _OTHERS_MAX, _OTHERS_PAGE):
        found = await list_jobs(table, same, syncs=[job.sync], limit=_OTHERS_PAGE, before=before)
        if any(_outlasts(each, job) for each in found):
            return True
        if len(found) < _OTHERS_PAGE:
            break
        before = found[-1].id
    return False


async def _delete_job(table: DynamoTable, job: Job) -> bool:
    """Delete the job, unless somebody has retried it; its old events go first.

    A crash between leaves a job without events, which the next round deletes.
    """
    await _delete_events(table, job)
    writes: list[Write] = [
        Delete(
            at=keys.job(job.id),
            condition="#state = :state AND #finished_at = :finished",
            values={"state": plain(job.state), "finished": plain(job.finished_at)},
        )
    ]
    if job.key is not None:
        writes.append(Delete(at=keys.job_key(job.user_id, job.key)))
    try:
        await table.transact(writes)
    except ConditionFailed:
        return False
    return True


async def _delete_events(table: DynamoTable, job: Job) -> None:
    """Delete all events of the job, page by page: without it, nothing would find the rest."""
    which = KeyRange(
        pk=keys.job(job.id)[0],
        first=keys.event_sk(0),
        last=keys.event_sk(10**12 - 1),
        keys_only=True,
    )
    after: Attributes | None = None
    while True:
        page = await table.query(which, after=after)
        await table.delete_many([key_of(item) for item in page.items])
        after = page.after
        if after is None:
            return


def _outlasts(other: Job, job: Job) -> bool:
    """Whether the other job ended later, and is a success if this one is."""
    assert job.finished_at is not None
    if other.finished_at is None or other.finished_at <= job.finished_at:
        return False
    return other.state is JobState.SUCCESS or job.state is not JobState.SUCCESS
