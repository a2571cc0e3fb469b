"""The retention of jobs: those that ended long ago are deleted, with their events and keys.

What is still asked of old jobs is kept: a user's last job of each sync and connection, and the last
one that succeeded.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.ports.store import JobFilter, PrunedJobs
from headgate.store.dynamodb import keys
from headgate.store.dynamodb.definition import BY_SYNC
from headgate.store.dynamodb.errors import ConditionFailed
from headgate.store.dynamodb.job_items import sync_shards
from headgate.store.dynamodb.merge import query_shards
from headgate.store.dynamodb.recovery import JobRecovery
from headgate.store.dynamodb.rows import plain
from headgate.store.dynamodb.table import KeyRange
from headgate.store.dynamodb.writes import Delete, Write

#: The most jobs of a connection that are looked at for a later one.
_OTHERS_MAX = 1000
#: The most event items of a job that are deleted at once.
_EVENTS_MAX = 10_000


class JobRetention(JobRecovery):
    """The part of the `JobStore` port that deletes old jobs, of this application's syncs."""

    async def prune_jobs(
        self, *, older_than: timedelta, limit: int, after: str | None = None
    ) -> PrunedJobs:
        """Look at `limit` jobs in the order of their ids, and delete those that may go.

        Ids sort by the time of creation, so the walk ends at the first job that is too young.
        """
        before = self.table.now() - older_than
        first = "job#" if after is None else keys.join("job", after)
        ranges = [
            KeyRange(pk=shard, first=first, last=f"job#{keys.LAST}", index=BY_SYNC)
            for sync in self.syncs
            for shard in sync_shards(sync)
        ]
        entries = await query_shards(self.table, BY_SYNC, ranges, limit=limit + 1)
        jobs = [job for job in await self.read_rows(entries) if job.id != after][:limit]
        old = [job for job in jobs if job.created_at < before]
        gone = 0
        for job in old:
            gone += await self._prune_if_old(job, before)
        return PrunedJobs(count=gone, after=old[-1].id if len(old) == limit else None)

    async def _prune_if_old(self, job: Job, before: datetime) -> bool:
        """Delete the job if it ended before then and is not the last of its kind."""
        if job.finished_at is None or job.finished_at >= before:
            return False
        later = await self._later(job)
        if not later:
            return False
        if job.state is JobState.SUCCESS and all(
            each.state is not JobState.SUCCESS for each in later
        ):
            return False
        return await self._delete_job(job)

    async def _later(self, job: Job) -> Sequence[Job]:
        """Jobs of the same user, sync and connection that ended later."""
        same = JobFilter(user_id=job.user_id, sync=job.sync, connection_id=job.connection_id)
        found = await self.list_jobs(same, limit=_OTHERS_MAX)
        assert job.finished_at is not None
        return [each for each in found if each.finished_at and each.finished_at > job.finished_at]

    async def _delete_job(self, job: Job) -> bool:
        """Delete the job, unless somebody has retried it; its old events go first.

        A crash between leaves a job without events, which the next round deletes.
        """
        which = KeyRange(
            pk=keys.job(job.id)[0], first=keys.event_sk(0), last=keys.event_sk(10**12 - 1)
        )
        events = await self.table.query_all(which, limit=_EVENTS_MAX)
        await self.table.write_batch(deletes=[(item["pk"], item["sk"]) for item in events])
        writes: list[Write] = [
            Delete(
                at=self.key(job.id),
                condition="#state = :state AND #finished_at = :finished",
                values={"state": plain(job.state), "finished": plain(job.finished_at)},
            )
        ]
        if job.key is not None:
            writes.append(Delete(at=keys.job_key(job.user_id, job.key)))
        try:
            await self.table.transact(writes)
        except ConditionFailed:
            return False
        return True
