"""Jobs as leased rows: what is written with each change of a job.

The job's row, its events, its locks, the coverage, the receipts and the records of its chunk are
one transaction. If they are too many for one, records and receipts are written first, under their
stable keys and on the condition that the claim still holds, and the rest last: a crash between
repeats the chunk, and doubles nothing.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from headgate.base.encoding import JsonObject
from headgate.base.errors import ActiveJobExists, HeadgateError, StoreError
from headgate.model.change import JOBS, JobChange, count
from headgate.model.job import Job, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import ChunkWork
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes, Key
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import (
    TRANSACTION_BYTES_MAX,
    TRANSACTION_ITEMS_MAX,
    DynamoTable,
)
from headgate.store.dynamodb.engine.writes import IS_NEW, Check, Delete, Put, Write
from headgate.store.dynamodb.jobs import events
from headgate.store.dynamodb.jobs.rows import changing_attributes, claim_ends_at
from headgate.store.dynamodb.leases.table import DynamoLeases, Settlement, unchanged
from headgate.store.dynamodb.records.chunk import plan_records
from headgate.store.dynamodb.records.chunk_work import (
    plan_coverage,
    plan_high_water,
    plan_receipts,
    refuse_unsupported,
)

_Settlement = Settlement[Job, JobChange, ChunkWork]

#: Far below what DynamoDB allows: a larger request would hold up the event loop while it is sent.
_BYTES_AIM = TRANSACTION_BYTES_MAX // 8


class JobLeases(DynamoLeases[Job, JobChange, ChunkWork]):
    """The rows of jobs."""

    def __init__(self, table: DynamoTable) -> None:
        """Store jobs in `table`, which must be open."""
        super().__init__(table, JOBS)
        #: Providers that are known to be among the breakers.
        self._noted: set[str] = set()

    def key(self, row_id: str) -> Key:
        """The key of a job."""
        return keys.job(row_id)

    def index(self, row: Job) -> Attributes:
        """The attributes of a job that follow from its state."""
        return changing_attributes(row)

    def ends_at(self, row: Job) -> datetime | None:
        """When the claim on a job ends by itself."""
        return claim_ends_at(row) if row.state in JOB.claimed else None

    def fence(self, settlement: _Settlement) -> tuple[str, Attributes]:
        """The condition that the job is as it was read, and that nothing was told of it since."""
        return unchanged(settlement.item, [*self._seen, events.EVENTS])

    # ---- what belongs to a change --------------------------------------------------------------

    async def prepare(self, settlement: _Settlement) -> None:
        """Add the events, the locks and the work of the chunk."""
        work, now = settlement.payload, settlement.now
        early: list[Write] = []
        if work is not None:
            refuse_unsupported(work)
            # As it was read: the chunk is that of the steps before the change.
            job = replace(settlement.row, steps=settlement.change.before.steps)
            records = await plan_records(self.table, job, work, now)
            if records.counts:
                summary = count(settlement.row.summary, **records.counts.by_name())
                settlement.row = replace(settlement.row, summary=summary)
            early = [*records.writes, *plan_receipts(settlement.row, work, now)]
            settlement.writes += records.owner
            settlement.writes += await plan_coverage(self.table, settlement.row, work, now)
        settlement.writes += plan_high_water(settlement.row, now)
        settlement.writes += self._lock_writes(settlement)
        self._add_events(settlement)
        await self._note_breaker(settlement.row)
        await self._write_early(settlement, early)

    def _add_events(self, settlement: _Settlement) -> None:
        had = settlement.item[events.EVENTS]
        told = list(_told(settlement))
        settlement.writes += events.append(settlement.row.id, had, settlement.now, told)
        settlement.more = {events.EVENTS: had + len(told)}
        if not events.is_aged(settlement.item):
            settlement.more |= events.age_of(settlement.row.id, settlement.now)

    async def _write_early(self, settlement: _Settlement, early: list[Write]) -> None:
        """Write as many as it takes before the rest, each part while the claim still holds."""
        last = [self.row_write(settlement), *settlement.writes]
        if _fits([*last, *early]):
            settlement.writes += early
            return
        condition, seen = self.fence(settlement)
        check = Check(at=self.key(settlement.row.id), condition=condition, values=seen)
        for part in _parts(early):
            await self.table.transact([check, *part])

    def _lock_writes(self, settlement: _Settlement) -> Iterator[Write]:
        """The writes of what there may be once: an active job, and the probe of a provider."""
        item, job = settlement.item, settlement.row
        was_active, is_active = JobState(item["state"]) in JOB.active, job.state in JOB.active
        active = keys.active_job(job.sync, job.connection_id)
        if is_active and not was_active:
            yield _lock(active, job.id)
        elif was_active and not is_active:
            yield _unlock(active, job.id)
        was_probe, is_probe = bool(item["probe"]), job.probe
        if was_probe and not is_probe:
            yield _unlock(keys.probe(item["provider"]), job.id)
        elif is_probe and not was_probe:
            yield _lock(keys.probe(job.provider), job.id)

    async def _note_breaker(self, job: Job) -> None:
        """Note that the provider has had a breaker, so that the rescuer looks at its jobs."""
        if job.state is not JobState.PAUSED or job.reason is not Reason.BREAKER:
            return
        if job.provider not in self._noted:
            pk, sk = keys.breaker(job.provider)
            await self.table.write(Put(item={"pk": pk, "sk": sk}))
            self._noted.add(job.provider)

    def explain(self, settlement: _Settlement, failed: ConditionFailed) -> HeadgateError | None:
        """The error that a lock means which another job has; None: the job itself has changed."""
        if failed.failed[0]:
            # Perhaps the lock is this job's own, by whoever was faster with the same change.
            return None
        job = settlement.row
        errors = {
            keys.active_job(job.sync, job.connection_id): ActiveJobExists,
            keys.probe(job.provider): _ProbeExists,
        }
        writes = [self.row_write(settlement), *settlement.writes]
        for write, found, has_failed in zip(writes, failed.found, failed.failed, strict=True):
            if has_failed and write.key in errors and found is not None:
                return errors[write.key](found["job_id"])
        return None


class _ProbeExists(StoreError):
    """The provider has a probe already."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the provider has a probe already: {job_id}")


def _lock(key: Key, job_id: str) -> Put:
    return Put(item={"pk": key[0], "sk": key[1], "job_id": job_id}, condition=IS_NEW)


def _unlock(key: Key, job_id: str) -> Delete:
    mine = "attribute_not_exists(#pk) OR #job_id = :job_id"
    return Delete(at=key, condition=mine, values={"job_id": job_id})


def _told(settlement: _Settlement) -> Iterator[tuple[str, JsonObject]]:
    """The source's events of the chunk, then the event of the change."""
    for event in () if settlement.payload is None else settlement.payload.events:
        yield event.kind, event.data
    yield plain(settlement.change.event), settlement.change.data


def _fits(writes: Sequence[Write]) -> bool:
    size = sum(write.size for write in writes)
    return len(writes) <= TRANSACTION_ITEMS_MAX and size <= _BYTES_AIM


def _parts(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """The writes in parts that leave room for a check in the same transaction."""
    part: list[Write] = []
    size = 0
    for write in writes:
        if part and (len(part) + 1 == TRANSACTION_ITEMS_MAX or size + write.size > _BYTES_AIM):
            yield part
            part, size = [], 0
        part.append(write)
        size += write.size
    if part:
        yield part
