"""The guarded write of jobs: what is written with each change of a job.

A change is applied to the row as it was just read, and written on the condition that every column
that the rules looked at is still the same; if it is not, the row is read again. Each change is a
transaction of its own: of many that are settled together, some may be written and others not.

The job's row, its events, its locks, the coverage, the receipts and the records of its chunk are
one transaction. If they are too many for one, records and receipts are written first, under their
stable keys and on the condition that the claim still holds, and the rest last: a crash between
repeats the chunk, and doubles nothing.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import JsonObject
from headgate.base.errors import ActiveJobExists, HeadgateError, StoreError, StoreUnavailable
from headgate.model.change import JOBS, JobChange, count
from headgate.model.job import Job, Reason
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import ChunkWork, RowAttribute
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes, Key, check_size, item_size
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import only_set, plain
from headgate.store.dynamodb.engine.table import (
    TRANSACTION_BYTES_MAX,
    TRANSACTION_ITEMS_MAX,
    DynamoTable,
)
from headgate.store.dynamodb.engine.writes import (
    IS_NEW,
    Check,
    Delete,
    Put,
    Update,
    Write,
    set_and_remove,
    unchanged,
)
from headgate.store.dynamodb.jobs import events
from headgate.store.dynamodb.jobs.rows import CODEC, all_further_attributes, place_by_state
from headgate.store.dynamodb.records.chunk import plan_records
from headgate.store.dynamodb.records.coverage import plan_coverage
from headgate.store.dynamodb.records.high_water import plan_high_water
from headgate.store.dynamodb.records.receipts import plan_receipts

#: How often a change is applied anew because others have changed the row meanwhile.
TRIES_MAX = 10
#: What the work of a chunk leaves of a row's item: a claim and the words of a failure add to it,
#: and a row that cannot be claimed would keep others from being claimed too.
ROW_BYTES_SPARE = 8 * 1024
#: Far below what DynamoDB allows: a larger request would hold up the event loop while it is sent.
_BYTES_AIM = TRANSACTION_BYTES_MAX // 8
#: The columns that the rules look at, besides the time.
_SEEN = [name for name in JOBS.locked.__struct_fields__ if name != "now"]


class Settlement(msgspec.Struct):
    """A change to write: the job after it, the item as it was read, and the work of the chunk."""

    change: JobChange
    job: Job
    item: Attributes
    work: ChunkWork | None
    now: datetime
    #: What others read of the row besides.
    attributes: Sequence[RowAttribute]
    #: What is written in the same transaction.
    writes: list[Write] = []
    #: Attributes of the item besides the columns of the row.
    more: Attributes = {}

    @property
    def fence(self) -> tuple[str, Attributes]:
        """The condition that the job is as it was read, and that nothing was told of it since."""
        return unchanged(self.item, [*_SEEN, events.EVENTS])


async def settle(
    table: DynamoTable,
    change: JobChange,
    work: ChunkWork | None,
    *,
    attributes: Sequence[RowAttribute],
    noted: set[str],
) -> Job | None:
    """Apply a change and store the work of its chunk, in one transaction.

    `noted` are providers that are known to be among the breakers.
    """
    for _ in range(TRIES_MAX):
        settlement = await _apply(table, change, work, attributes)
        if settlement is None:
            return None
        try:
            await _prepare(table, settlement, noted)
        except ConditionFailed:
            continue
        writes = [_row_write(settlement), *settlement.writes]
        try:
            await table.transact(writes)
        except ConditionFailed as failed:
            error = _explain(settlement.job, writes, failed)
            if error is not None:
                raise error from None
        else:
            return settlement.job
    raise StoreUnavailable(f"the job {change.after.id!r} keeps changing")


async def settle_many(
    table: DynamoTable,
    batch: Sequence[tuple[JobChange, ChunkWork | None]],
    *,
    attributes: Sequence[RowAttribute],
    noted: set[str],
) -> Sequence[Job | None]:
    """Settle many changes, each for itself; those of one job one after another.

    The first error is raised after all have been tried.
    """
    results: list[Job | None] = [None] * len(batch)
    places: dict[str, list[int]] = {}
    for place, (change, _) in enumerate(batch):
        places.setdefault(change.after.id, []).append(place)

    async def settle_job(of_job: Sequence[int]) -> None:
        for place in of_job:
            change, work = batch[place]
            results[place] = await settle(table, change, work, attributes=attributes, noted=noted)

    await gather(settle_job(of_job) for of_job in places.values())
    return results


async def _apply(
    table: DynamoTable,
    change: JobChange,
    work: ChunkWork | None,
    attributes: Sequence[RowAttribute],
) -> Settlement | None:
    item = await table.get(keys.job(change.after.id))
    if item is None:
        return None
    found, now = CODEC.from_item(item), table.now()
    locked = JOBS.locked(**{name: getattr(found, name) for name in _SEEN}, now=now)
    became = JOBS.apply(change, locked)
    if became is None:
        return None
    taken, job = became
    if (job.lease_until is not None) != (job.state in JOB.claimed):
        raise StoreError(
            f"the job {job.id!r} is {job.state.value}: "
            "what is claimed has a lease, and nothing else has one"
        )
    return Settlement(change=taken, job=job, item=item, work=work, now=now, attributes=attributes)


def _row_write(settlement: Settlement) -> Update:
    """The write of the row, if everything that the rules looked at is as it was read."""
    before, job = settlement.change.before, settlement.job
    changed = [name for name in JOBS.if_changed if getattr(before, name) != getattr(job, name)]
    written = {
        **CODEC.to_item(job, (*JOBS.always, *changed)),
        **all_further_attributes(job, settlement.attributes),
        **place_by_state(job),
        **settlement.more,
    }
    whole = item_size(only_set({**settlement.item, **written}))
    # What a worker brings leaves room for what must always fit.
    spare = 0 if settlement.work is None else ROW_BYTES_SPARE
    check_size(keys.job(job.id), whole + spare)
    condition, seen = settlement.fence
    return Update(
        at=keys.job(job.id),
        change=set_and_remove(written),
        condition=condition,
        values={**written, **seen},
    )


# ---- what belongs to a change ------------------------------------------------------------------


async def _prepare(table: DynamoTable, settlement: Settlement, noted: set[str]) -> None:
    """Add the events, the locks and the work of the chunk.

    It may write what does no harm if the change is not written in the end; after a ConditionFailed
    the row is read again.
    """
    work, now = settlement.work, settlement.now
    early: list[Write] = []
    if work is not None:
        _refuse_unsupported(work)
        # As it was read: the chunk is that of the steps before the change.
        job = replace(settlement.job, steps=settlement.change.before.steps)
        records = await plan_records(table, job, work, now)
        if records.counts:
            summary = count(settlement.job.summary, **records.counts.by_name())
            settlement.job = replace(settlement.job, summary=summary)
        early = [*records.writes, *plan_receipts(settlement.job, work, now)]
        settlement.writes += records.owner
        settlement.writes += await plan_coverage(table, settlement.job, work, now)
    settlement.writes += plan_high_water(settlement.job, now)
    settlement.writes += _lock_writes(settlement)
    _add_events(settlement)
    await _note_breaker(table, settlement.job, noted)
    await _write_early(table, settlement, early)


def _refuse_unsupported(work: ChunkWork) -> None:
    """Refuse what needs SQL; an application with a sync that needs it does not even start."""
    if work.table is not None and work.table_records:
        raise StoreError("a system's own table needs a SQL database; DynamoDB has none")
    if work.messages:
        raise StoreError("messages need a SQL database; DynamoDB has no outbox")


def _add_events(settlement: Settlement) -> None:
    had = settlement.item[events.EVENTS]
    told = list(_told(settlement))
    settlement.writes += events.append(settlement.job.id, had, settlement.now, told)
    settlement.more = {events.EVENTS: had + len(told)}
    if not events.is_aged(settlement.item):
        settlement.more |= events.age_of(settlement.job.id, settlement.now)


def _told(settlement: Settlement) -> Iterator[tuple[str, JsonObject]]:
    """The source's events of the chunk, then the event of the change."""
    for event in () if settlement.work is None else settlement.work.events:
        yield event.kind, event.data
    yield plain(settlement.change.event), settlement.change.data


async def _write_early(table: DynamoTable, settlement: Settlement, early: list[Write]) -> None:
    """Write as many as it takes before the rest, each part while the claim still holds."""
    last = [_row_write(settlement), *settlement.writes]
    if _fits([*last, *early]):
        settlement.writes += early
        return
    condition, seen = settlement.fence
    check = Check(at=keys.job(settlement.job.id), condition=condition, values=seen)
    for part in _parts(early):
        await table.transact([check, *part])


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


# ---- what there may be once --------------------------------------------------------------------


def _lock_writes(settlement: Settlement) -> Iterator[Write]:
    """The writes of what there may be once: an active job, and the probe of a provider."""
    item, job = settlement.item, settlement.job
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


def _lock(key: Key, job_id: str) -> Put:
    return Put(item={"pk": key[0], "sk": key[1], "job_id": job_id}, condition=IS_NEW)


def _unlock(key: Key, job_id: str) -> Delete:
    mine = "attribute_not_exists(#pk) OR #job_id = :job_id"
    return Delete(at=key, condition=mine, values={"job_id": job_id})


async def _note_breaker(table: DynamoTable, job: Job, noted: set[str]) -> None:
    """Note that the provider has had a breaker, so that the sweeper looks at its jobs."""
    if job.state is not JobState.PAUSED or job.reason is not Reason.BREAKER:
        return
    if job.provider not in noted:
        pk, sk = keys.breaker(job.provider)
        await table.write(Put(item={"pk": pk, "sk": sk}))
        noted.add(job.provider)


class _ProbeExists(StoreError):
    """The provider has a probe already."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the provider has a probe already: {job_id}")


def _explain(job: Job, writes: Sequence[Write], failed: ConditionFailed) -> HeadgateError | None:
    """The error that a lock means which another job has; None: the job itself has changed."""
    if failed.failed[0]:
        # Perhaps the lock is this job's own, by whoever was faster with the same change.
        return None
    errors = {
        keys.active_job(job.sync, job.connection_id): ActiveJobExists,
        keys.probe(job.provider): _ProbeExists,
    }
    for write, found, has_failed in zip(writes, failed.found, failed.failed, strict=True):
        if has_failed and write.key in errors and found is not None:
            return errors[write.key](found["job_id"])
    return None
