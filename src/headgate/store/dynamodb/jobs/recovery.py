"""Jobs that the rescuer handles: those of providers whose breaker is open, and their probes.

The index says which jobs those are, and may be behind. What it says is checked on the rows, and
every change is a conditional write.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.merge import query_shards
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import KeyRange
from headgate.store.dynamodb.engine.writes import Update, is_one_of, set_and_remove
from headgate.store.dynamodb.jobs.lists import COUNT_MAX, JobLists
from headgate.store.dynamodb.jobs.rows import breaker_shards, place_by_state, recovering_shards

#: The most providers that are looked at; an application has a few.
PROVIDERS_MAX = 1000


class JobRecovery(JobLists):
    """The part of the `JobStore` port for jobs that wait for their provider."""

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        """Recovering jobs that are due, and the first paused job of each provider without a probe.

        Only of this application's syncs: a probe that no worker here can run would keep the
        breaker open.
        """
        now = self.table.now()
        last = f"{keys.time_text(now)}#{keys.LAST}"
        recovering = await query_shards(
            self.table, BY_STATE, self._recovering_ranges(last), limit=limit
        )
        shut = await gather(
            query_shards(self.table, BY_STATE, self._shut_ranges(provider, last), limit=1)
            for provider in await self._unprobed()
        )
        found = await self.read_rows([*recovering, *(entry for each in shut for entry in each)])
        due = [job for job in found if _may_thaw(job, now)]
        recovered = [job for job in due if job.reason is Reason.RECOVERING]
        recovered.sort(key=lambda job: (job.provider, job.wake_at))
        return [*recovered, *(job for job in due if job.reason is Reason.BREAKER)][:limit]

    async def _providers(self) -> list[str]:
        """The providers for whose jobs a breaker has ever opened."""
        items = await self.table.query_all(KeyRange(pk=keys.BREAKERS), limit=PROVIDERS_MAX)
        return [item["sk"] for item in items]

    async def _probes(self) -> list[Attributes]:
        return await self.table.query_all(KeyRange(pk=keys.PROBES), limit=PROVIDERS_MAX)

    async def _unprobed(self) -> list[str]:
        probed = {item["sk"] for item in await self._probes()}
        return [provider for provider in await self._providers() if provider not in probed]

    def _recovering_ranges(self, last: str | None = None) -> list[KeyRange]:
        return [
            KeyRange(pk=shard, last=last, index=BY_STATE)
            for sync in self.syncs
            for shard in recovering_shards(sync)
        ]

    def _shut_ranges(self, provider: str, last: str | None = None) -> list[KeyRange]:
        """The jobs of this application that wait for the provider's cool-down."""
        if not self.syncs:
            return []
        where, named = is_one_of("sync", self.syncs)
        return [
            KeyRange(pk=shard, last=last, index=BY_STATE, where=where, values=named)
            for shard in breaker_shards(provider)
        ]

    async def list_waiting_probes(self) -> Sequence[Job]:
        """Probes of all applications that wait for a worker."""
        wanted = [keys.job(item["job_id"]) for item in await self._probes()]
        found = await self.table.get_many(wanted)
        jobs = [self.codec.from_item(item) for item in found.values()]
        return [job for job in jobs if job.probe and job.state is JobState.PENDING]

    async def fails_others(self, job: Job, provider: str, *, pauses_below: int) -> bool:
        """Whether jobs of other users are paused because of the provider, less often than so."""
        ranges = [
            KeyRange(
                pk=shard,
                index=BY_STATE,
                where="#user_id <> :user AND #pauses < :pauses",
                values={"user": job.user_id, "pauses": pauses_below},
            )
            for shard in breaker_shards(provider)
        ]
        return bool(await query_shards(self.table, BY_STATE, ranges, limit=1))

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """Resume the provider's paused jobs, one every `stagger`, the longest waiting first."""
        ranges = [KeyRange(pk=shard, index=BY_STATE) for shard in breaker_shards(provider)]
        jobs = await self.read_rows(await query_shards(self.table, BY_STATE, ranges, limit=limit))
        now = self.table.now()
        done = await gather(
            self._release(job, now, now + place * stagger) for place, job in enumerate(jobs, 1)
        )
        return sum(done)

    async def _release(self, job: Job, now: datetime, at: datetime) -> bool:
        """Let one job go on at that time; False if it is no longer paused by the breaker."""
        after = replace(job, reason=Reason.RECOVERING, wake_at=at)
        written = {
            "reason": plain(after.reason),
            "wake_at": plain(at),
            "updated_at": plain(now),
            **place_by_state(after),
        }
        update = Update(
            at=self.key(job.id),
            change=set_and_remove(written),
            condition="#state = :paused AND #reason = :breaker AND #provider = :provider",
            values={
                **written,
                "paused": plain(JobState.PAUSED),
                "breaker": plain(Reason.BREAKER),
                "provider": job.provider,
            },
        )
        try:
            await self.table.write(update)
        except ConditionFailed:
            return False
        return True

    async def breaker_entries(self) -> list[Attributes]:
        """The jobs of this application's syncs that the breaker has paused, as index entries."""
        found = await gather(
            query_shards(self.table, BY_STATE, self._shut_ranges(provider), limit=COUNT_MAX)
            for provider in await self._providers()
        )
        return [entry for each in found for entry in each]

    async def next_sweep_s(self) -> float | None:
        """Seconds until the first lease, deadline or cool-down of this application ends."""
        shut = [self._shut_ranges(provider) for provider in await self._unprobed()]
        waits = await gather(
            self.first_s(ranges)
            for ranges in (self._claimed_shards(), self._recovering_ranges(), *shut)
        )
        return min((wait for wait in waits if wait is not None), default=None)


def _may_thaw(job: Job, now: datetime) -> bool:
    return (
        job.state is JobState.PAUSED
        and job.reason in (Reason.RECOVERING, Reason.BREAKER)
        and job.wake_at is not None
        and job.wake_at <= now
    )
