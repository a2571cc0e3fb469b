"""Submission of jobs: once per key, and one active job for a sync and connection.

Both are items that exist while they hold, written in the same transaction as the job.
"""

from collections.abc import Sequence
from datetime import datetime

from headgate.base.errors import ActiveJobExists, Conflict, KeyReused
from headgate.model.job import EventKind, Job, Reason
from headgate.model.lease import AT_ONCE
from headgate.model.states import JobState
from headgate.ports.jobs.store import RowAttribute
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitResult, SubmitStatus
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import only_set
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Put, Write
from headgate.store.dynamodb.jobs import events
from headgate.store.dynamodb.jobs.rows import (
    CODEC,
    all_further_attributes,
    fixed_attributes,
    place_by_state,
)

_TRIES_MAX = 3


async def submit(
    table: DynamoTable, new: NewJob, *, attributes: Sequence[RowAttribute]
) -> SubmitResult:
    """Store a job, unless its key or an active job of the same sync and connection exists."""
    for _ in range(_TRIES_MAX):
        job = _new_row(new, table.now())
        try:
            await table.transact(_writes(new, job, attributes))
        except ConditionFailed:
            if (same := await _find_by_key(table, new)) is not None:
                return SubmitResult(same, created=False)
            lock = await table.get(keys.active_job(new.sync, new.connection_id))
            if lock is not None:
                raise ActiveJobExists(lock["job_id"]) from None
            # The job that was in the way has ended meanwhile: try again.
        else:
            return SubmitResult(job, created=True)
    raise Conflict("other requests for the same sync and connection keep winning; try again")


async def _find_by_key(table: DynamoTable, new: NewJob) -> Job | None:
    if new.key is None:
        return None
    lock = await table.get(keys.job_key(new.user_id, new.key))
    if lock is None:
        return None
    if lock["request_hash"] != new.request_hash:
        raise KeyReused(lock["job_id"])
    item = await table.get(keys.job(lock["job_id"]))
    # A job that is being deleted: its key is free in a moment.
    return None if item is None else CODEC.from_item(item)


async def submit_many(
    table: DynamoTable, new: Sequence[NewJob], *, attributes: Sequence[RowAttribute]
) -> Sequence[SubmitOutcome]:
    """Store jobs, each in a transaction of its own; the outcomes are in the same order.

    Those that no request before them can be in the way of are stored at the same time.
    """
    outcomes: dict[int, SubmitOutcome] = {}
    seen: set[tuple[str, ...]] = set()
    alone: list[int] = []
    after: list[int] = []
    for place, each in enumerate(new):
        subjects = _subjects(each)
        (after if subjects & seen else alone).append(place)
        seen |= subjects

    async def store(place: int) -> None:
        outcomes[place] = await _submit_one(table, new[place], attributes)

    await gather(store(place) for place in alone)
    for place in after:
        await store(place)
    return [outcomes[place] for place in range(len(new))]


async def _submit_one(
    table: DynamoTable, new: NewJob, attributes: Sequence[RowAttribute]
) -> SubmitOutcome:
    try:
        submitted = await submit(table, new, attributes=attributes)
    except ActiveJobExists as error:
        return SubmitOutcome(SubmitStatus.ACTIVE, error.job_id)
    except KeyReused as error:
        return SubmitOutcome(SubmitStatus.REFUSED, error.job_id, field="key", error=error)
    status = SubmitStatus.CREATED if submitted.created else SubmitStatus.EXISTING
    return SubmitOutcome(status, submitted.job.id)


def _subjects(new: NewJob) -> set[tuple[str, ...]]:
    """What only one of several requests can have: its sync and connection, and its key."""
    subject: set[tuple[str, ...]] = {("active", new.sync, new.connection_id)}
    return subject if new.key is None else subject | {("key", new.user_id, new.key)}


def _new_row(new: NewJob, now: datetime) -> Job:
    given = {
        name: getattr(new, name)
        for name in NewJob.__struct_fields__
        if name not in ("delay", "request_hash")
    }
    return Job(
        **given,
        state=JobState.PENDING,
        reason=Reason.QUEUED,
        provider=new.source,
        wake_at=now + max(new.delay, AT_ONCE),
        created_at=now,
        updated_at=now,
    )


def _writes(new: NewJob, job: Job, attributes: Sequence[RowAttribute]) -> list[Write]:
    pk, sk = keys.job(job.id)
    item: Attributes = {
        "pk": pk,
        "sk": sk,
        **CODEC.to_item(job),
        **fixed_attributes(job),
        **place_by_state(job),
        **all_further_attributes(job, attributes),
        events.EVENTS: 1,
        **events.age_of(job.id, job.created_at),
    }
    told = [(EventKind.SUBMITTED.value, {"lane": job.lane.value})]
    lock = _lock_item(*keys.active_job(job.sync, job.connection_id), job)
    writes: list[Write] = [
        Put(item=only_set(item), condition=IS_NEW),
        Put(item=lock, condition=IS_NEW),
        *events.append(job.id, 0, job.created_at, told),
    ]
    if new.key is not None:
        keyed = _lock_item(*keys.job_key(new.user_id, new.key), job)
        keyed["request_hash"] = new.request_hash
        writes.append(Put(item=keyed, condition=IS_NEW))
    return writes


def _lock_item(pk: str, sk: str, job: Job) -> Attributes:
    return {"pk": pk, "sk": sk, "job_id": job.id}
