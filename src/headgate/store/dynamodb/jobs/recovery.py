"""Jobs that the sweeper handles: those of providers whose breaker is open, and their probes.

The index says which jobs those are, and may be behind. What it says is checked on the rows, and
every change is a conditional write.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.ports.jobs.store import RowAttribute
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import BY_STATE
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Update, is_one_of, set_and_remove
from headgate.store.dynamodb.jobs.leases import claimed_ranges, first_s
from headgate.store.dynamodb.jobs.rows import (
    CODEC,
    all_further_attributes,
    breaker_shards,
    place_by_state,
    read_jobs,
    recovering_shards,
)

#: The most providers that are looked at; an application has a few.
PROVIDERS_MAX = 1000
#: The most claimed jobs, or jobs of open breakers, that are counted.
COUNT_MAX = 100_000


async def list_thawable(table: DynamoTable, *, syncs: Sequence[str], limit: int) -> Sequence[Job]:
    """Recovering jobs that are due, and the first paused job of each provider without a probe.

    Only of these syncs: a probe that no worker here can run would keep the breaker open.
    """
    now = table.now()
    last = f"{keys.time_text(now)}#{keys.LAST}"
    recovering = await table.query_shards(BY_STATE, _recovering_ranges(syncs, last), limit=limit)
    shut = await gather(
        table.query_shards(BY_STATE, _shut_ranges(provider, syncs, last), limit=1)
        for provider in await _unprobed(table)
    )
    found = await read_jobs(table, [*recovering, *(entry for each in shut for entry in each)])
    due = [job for job in found if _may_thaw(job, now)]
    recovered = [job for job in due if job.reason is Reason.RECOVERING]
    recovered.sort(key=lambda job: (job.provider, job.wake_at))
    return [*recovered, *(job for job in due if job.reason is Reason.BREAKER)][:limit]


def _may_thaw(job: Job, now: datetime) -> bool:
    return (
        job.state is JobState.PAUSED
        and job.reason in (Reason.RECOVERING, Reason.BREAKER)
        and job.wake_at is not None
        and job.wake_at <= now
    )


async def _providers(table: DynamoTable) -> list[str]:
    """The providers for whose jobs a breaker has ever opened."""
    items = await table.query_all(KeyRange(pk=keys.BREAKERS), limit=PROVIDERS_MAX)
    return [item["sk"] for item in items]


async def _probes(table: DynamoTable) -> list[Attributes]:
    return await table.query_all(KeyRange(pk=keys.PROBES), limit=PROVIDERS_MAX)


async def _unprobed(table: DynamoTable) -> list[str]:
    probed = {item["sk"] for item in await _probes(table)}
    return [provider for provider in await _providers(table) if provider not in probed]


def _recovering_ranges(syncs: Sequence[str], last: str | None = None) -> list[KeyRange]:
    return [
        KeyRange(pk=shard, last=last, index=BY_STATE)
        for sync in syncs
        for shard in recovering_shards(sync)
    ]


def _shut_ranges(provider: str, syncs: Sequence[str], last: str | None = None) -> list[KeyRange]:
    """The jobs of these syncs that wait for the provider's cool-down."""
    if not syncs:
        return []
    where, named = is_one_of("sync", syncs)
    return [
        KeyRange(pk=shard, last=last, index=BY_STATE, where=where, values=named)
        for shard in breaker_shards(provider)
    ]


async def list_waiting_probes(table: DynamoTable) -> Sequence[Job]:
    """Probes of all applications that wait for a worker."""
    wanted = [keys.job(item["job_id"]) for item in await _probes(table)]
    found = await table.get_many(wanted)
    jobs = [CODEC.from_item(item) for item in found.values()]
    return [job for job in jobs if job.probe and job.state is JobState.PENDING]


async def fails_others(table: DynamoTable, job: Job, provider: str, *, pauses_below: int) -> bool:
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
    return bool(await table.query_shards(BY_STATE, ranges, limit=1))


async def release_provider(
    table: DynamoTable,
    provider: str,
    *,
    attributes: Sequence[RowAttribute],
    stagger: timedelta,
    limit: int,
) -> int:
    """Resume the provider's paused jobs, one every `stagger`, the longest waiting first."""
    ranges = [KeyRange(pk=shard, index=BY_STATE) for shard in breaker_shards(provider)]
    jobs = await read_jobs(table, await table.query_shards(BY_STATE, ranges, limit=limit))
    now = table.now()
    done = await gather(
        _release(table, job, now, now + place * stagger, attributes)
        for place, job in enumerate(jobs, 1)
    )
    return sum(done)


async def _release(
    table: DynamoTable,
    job: Job,
    now: datetime,
    at: datetime,
    attributes: Sequence[RowAttribute],
) -> bool:
    """Let one job go on at that time; False if it is no longer paused by the breaker."""
    after = replace(job, reason=Reason.RECOVERING, wake_at=at, updated_at=now)
    written = {
        **CODEC.to_item(after, ("reason", "wake_at", "updated_at")),
        **all_further_attributes(after, attributes),
        **place_by_state(after),
    }
    update = Update(
        at=keys.job(job.id),
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
        await table.write(update)
    except ConditionFailed:
        return False
    return True


async def breaker_entries(table: DynamoTable, *, syncs: Sequence[str]) -> list[Attributes]:
    """The jobs of these syncs that the breaker has paused, as index entries."""
    found = await gather(
        table.query_shards(BY_STATE, _shut_ranges(provider, syncs), limit=COUNT_MAX)
        for provider in await _providers(table)
    )
    return [entry for each in found for entry in each]


async def open_breakers(table: DynamoTable, *, syncs: Sequence[str]) -> Mapping[str, int]:
    """How many jobs of these syncs the breaker has paused, by provider."""
    return dict(Counter(entry["provider"] for entry in await breaker_entries(table, syncs=syncs)))


async def next_sweep_s(table: DynamoTable, *, syncs: Sequence[str]) -> float | None:
    """Seconds until the first lease, deadline or cool-down of these syncs ends."""
    shut = [_shut_ranges(provider, syncs) for provider in await _unprobed(table)]
    waits = await gather(
        first_s(table, ranges) for ranges in (claimed_ranges(), _recovering_ranges(syncs), *shut)
    )
    return min((wait for wait in waits if wait is not None), default=None)


class DynamoBreakers(DynamoPort):
    """Breakers in DynamoDB."""

    def __init__(
        self, table: DynamoTable, syncs: Sequence[str], attributes: Sequence[RowAttribute] = ()
    ) -> None:
        """Use `table`, which must be open, for an application with these syncs."""
        super().__init__(table)
        self._syncs = tuple(syncs)
        self._attributes = attributes

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        return await list_thawable(self.table, syncs=self._syncs, limit=limit)

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        return await release_provider(
            self.table, provider, attributes=self._attributes, stagger=stagger, limit=limit
        )

    async def open_breakers(self) -> Mapping[str, int]:
        return await open_breakers(self.table, syncs=self._syncs)

    list_waiting_probes = on_table(list_waiting_probes)
    fails_others = on_table(fails_others)
