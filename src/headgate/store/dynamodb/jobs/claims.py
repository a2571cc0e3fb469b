"""Claims of jobs: by a message that names one, or the longest waiting of a lane.

The index says which jobs may be due, and may be behind. The claim itself is one conditional write
of the row, so nobody gets a job that another has, and a stale entry claims nothing.
"""

from collections.abc import Sequence
from datetime import timedelta

from headgate.model.job import Job, Lane, Reason
from headgate.model.states import JobState
from headgate.ports.jobs.hints import DueJobs
from headgate.ports.jobs.store import JobClaimResult
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import AT_ONCE_MAX, gather_most
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.merge import query_shards
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import KeyRange
from headgate.store.dynamodb.engine.writes import is_one_of
from headgate.store.dynamodb.jobs.rows import STATUS_OF, historical_time, pending_shards
from headgate.store.dynamodb.jobs.settle import JobLeases
from headgate.store.dynamodb.leases.table import time_of

#: When to claim again if another claim took what this one saw.
CROWDED_S = 0.05
#: Besides the wanted ones, so many due jobs are looked at: others may claim the same at once.
_SPARE = AT_ONCE_MAX


class JobClaims(JobLeases):
    """The part of the `JobStore` port that claims, for an application with these syncs."""

    syncs: Sequence[str]

    async def claim_job(
        self, job_id: str, *, step: int | None, worker: str, lease: timedelta
    ) -> Job | None:
        """Claim that job if it is due, of one of this application's syncs, and at that step."""
        condition, values = "#wake_at <= :now", dict[str, object]()
        if step is not None:
            condition, values["step"] = f"{condition} AND #steps = :step", step
        if not self.syncs:
            return None
        is_own, named = is_one_of("sync", self.syncs)
        now = self.table.now()
        return await self.claim_row(
            job_id,
            worker=worker,
            lease=lease,
            condition=f"{condition} AND {is_own}",
            values={**values, **named},
            more={
                "reason": plain(Reason.WORKING),
                "status": STATUS_OF[JobState.RUNNING],
                "lastAttempt": historical_time(now),
            },
            first=("started_at",),
        )

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        """Claim up to `limit` due jobs of the lane, the longest waiting first."""
        due, next_due_s = await self._find_due(lane, limit=limit + _SPARE)
        claimed: list[Job] = []
        missed = 0
        while due and len(claimed) < limit:
            wanted = limit - len(claimed)
            some, due = due[:wanted], due[wanted:]
            found, errors = await gather_most(
                self.claim_job(_job_id(each), step=None, worker=worker, lease=lease)
                for each in some
            )
            claimed += [job for job in found if job is not None]
            missed += found.count(None)
            if errors:
                # What is claimed is worked on: else nobody would, until its lease ends.
                if not claimed:
                    raise errors[0]
                return JobClaimResult(claimed, 0.0)
        if len(claimed) == limit:
            return JobClaimResult(claimed, None)
        return JobClaimResult(claimed, CROWDED_S if missed else next_due_s)

    async def list_due(self, lane: Lane, *, limit: int) -> DueJobs:
        """Due jobs of the lane and of this application's syncs, the longest waiting first."""
        now = self.table.now()
        rows = await self.read_rows((await self._find_due(lane, limit=limit))[0])
        due = [
            job
            for job in rows
            if job.state is JobState.PENDING and job.wake_at is not None and job.wake_at <= now
        ]
        return DueJobs(due, now)

    async def _find_due(self, lane: Lane, *, limit: int) -> tuple[list[Attributes], float | None]:
        """The entries of due jobs, at most so many, and seconds until the next is due."""
        now = self.table.now()
        entries = await query_shards(self.table, BY_STATE, self.pending_ranges(lane), limit=limit)
        due = [entry for entry in entries if time_of(entry) <= now]
        later = entries[len(due) :]
        return due, (time_of(later[0]) - now).total_seconds() if later else None

    def pending_ranges(self, lane: Lane) -> list[KeyRange]:
        """The pending jobs of this application in the index, by the time when they are due."""
        return [
            KeyRange(pk=shard, index=BY_STATE)
            for sync in self.syncs
            for shard in pending_shards(lane, sync)
        ]


def _job_id(entry: Attributes) -> str:
    return keys.unescape(str(entry["pk"]).removeprefix("job#"))
