"""Lists and counts of jobs, each from the index that fits its filter best."""

from collections import Counter
from collections.abc import Mapping, Sequence

from headgate.model.job import Job, Lane
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import JobFilter
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import (
    BY_CONNECTION,
    BY_STATE,
    BY_SYNC,
    BY_USER,
    index_keys,
)
from headgate.store.dynamodb.engine.merge import count_shards, query_shards
from headgate.store.dynamodb.engine.table import KeyRange
from headgate.store.dynamodb.jobs.claims import JobClaims
from headgate.store.dynamodb.jobs.rows import (
    pending_shards,
    recovering_shards,
    state_shards,
    sync_shards,
)
from headgate.store.dynamodb.leases.table import time_of

#: The most jobs that one list looks at, where its filter has no index of its own.
LOOK_MAX = 10_000
#: The fewest that are read at once.
_PAGE_MIN = 50
#: The most claimed jobs, or jobs of open breakers, that are counted.
COUNT_MAX = 100_000


class JobLists(JobClaims):
    """The part of the `JobStore` port that lists and counts."""

    async def list_jobs(
        self, job_filter: JobFilter, *, limit: int, before: str | None = None
    ) -> Sequence[Job]:
        """Jobs, newest first, older than the id `before`.

        Without a user, a connection or a sync, only those of this application's syncs.
        """
        if _is_active_one(job_filter):
            found = await self._active_job(job_filter)
            return [job for job in found if before is None or job.id < before][:limit]
        index, partitions, prefix = self._partitions(job_filter)
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
            entries = await query_shards(self.table, index, ranges, limit=page + 1)
            rows = await self.read_rows(entries)
            # The last sort key is included, so the job `before` comes again.
            jobs += [job for job in rows if job.id != before and _matches(job, job_filter)]
            if len(jobs) >= limit or len(entries) <= page:
                break
            before = _id_of(entries[-1], index, prefix)
        return jobs[:limit]

    def _partitions(self, wanted: JobFilter) -> tuple[str, list[str], str]:
        """The index for a filter, its partitions, and how the sort keys of jobs begin in it."""
        prefix = "job#"
        if wanted.connection_id is not None:
            return BY_CONNECTION, [keys.join("connection", wanted.connection_id)], prefix
        if wanted.user_id is not None:
            return BY_USER, [keys.join("user", wanted.user_id)], prefix
        syncs = self.syncs if wanted.sync is None else [wanted.sync]
        if wanted.states and set(wanted.states) <= set(JOB.terminal):
            shards = [
                shard
                for sync in syncs
                for state in wanted.states
                for shard in state_shards(state, sync)
            ]
            return BY_STATE, shards, ""
        return BY_SYNC, [shard for sync in syncs for shard in sync_shards(sync)], prefix

    async def _active_job(self, wanted: JobFilter) -> list[Job]:
        """The active job of a sync and connection by its lock, which is never behind."""
        assert wanted.sync is not None and wanted.connection_id is not None
        lock = await self.table.get(keys.active_job(wanted.sync, wanted.connection_id))
        item = None if lock is None else await self.table.get(keys.job(lock["job_id"]))
        found = [] if item is None else [self.codec.from_item(item)]
        return [job for job in found if _matches(job, wanted)]

    # ---- counting ------------------------------------------------------------------------------

    async def count_jobs(self) -> Mapping[str, Mapping[JobState, int]]:
        """How many jobs of each of this application's syncs are in each state, zero included."""
        counted = {sync: dict.fromkeys(JOB.states, 0) for sync in self.syncs}
        for entry in await self._claimed_entries():
            if entry["sync"] in counted:
                counted[entry["sync"]][JobState(entry["state"])] += 1
        for entry in await self.breaker_entries():
            counted[entry["sync"]][JobState.PAUSED] += 1
        for sync, of_sync in counted.items():
            pending = [each for lane in Lane for each in pending_shards(lane, sync)]
            of_sync[JobState.PENDING] = await self._count(pending)
            waiting = [*recovering_shards(sync), *state_shards(JobState.PAUSED, sync)]
            of_sync[JobState.PAUSED] += await self._count(waiting)
            for state in JOB.terminal:
                of_sync[state] = await self._count(state_shards(state, sync))
        return counted

    async def _count(self, partitions: Sequence[str]) -> int:
        ranges = [KeyRange(pk=each, index=BY_STATE) for each in partitions]
        return await count_shards(self.table, ranges)

    async def _claimed_entries(self) -> list[Attributes]:
        return await query_shards(self.table, BY_STATE, self._claimed_shards(), limit=COUNT_MAX)

    async def breaker_entries(self) -> list[Attributes]:
        """The jobs of this application's syncs that the breaker has paused, as index entries."""
        raise NotImplementedError

    async def open_breakers(self) -> Mapping[str, int]:
        """How many jobs of this application's syncs the breaker has paused, by provider."""
        return dict(Counter(entry["provider"] for entry in await self.breaker_entries()))

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        """How long the oldest due job of each lane has waited; 0 if none waits."""
        waited = await gather(self._waited_s(lane) for lane in Lane)
        return dict(zip(Lane, waited, strict=True))

    async def _waited_s(self, lane: Lane) -> float:
        entries = await query_shards(self.table, BY_STATE, self.pending_ranges(lane), limit=1)
        if not entries:
            return 0.0
        return max(0.0, (self.table.now() - time_of(entries[0])).total_seconds())


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
