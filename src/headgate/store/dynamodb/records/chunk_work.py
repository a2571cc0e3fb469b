"""What a chunk brings besides its records: coverage, receipts and the high-water mark."""

from datetime import datetime

from headgate.base.encoding import to_json
from headgate.base.errors import StoreError
from headgate.model.job import Job
from headgate.model.lease import NO_CLAIM
from headgate.model.states import DayStatus, JobState
from headgate.ports.jobs.store import ChunkWork
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.rows import only_set, plain
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import Put, Write


def refuse_unsupported(work: ChunkWork) -> None:
    """Refuse what needs SQL; an application with a sync that needs it does not even start."""
    if work.table is not None and work.table_records:
        raise StoreError("a system's own table needs a SQL database; DynamoDB has none")
    if work.messages:
        raise StoreError("messages need a SQL database; DynamoDB has no outbox")


async def plan_coverage(
    table: DynamoTable, job: Job, work: ChunkWork, now: datetime
) -> list[Write]:
    """The write of the chunk's day. A held day stays held if a later read of it fails.

    Only a job that is active for its sync and connection writes their days, so nobody else writes
    between the look and the write.
    """
    day = work.coverage
    if day is None:
        return []
    if type(day.records) is not int:
        raise StoreError(f"coverage: {day.records!r} is no number of records")
    pk, sk = keys.day(job.sync, job.connection_id, day.day)
    if day.status is DayStatus.FAILED:
        known = await table.get((pk, sk))
        if known is not None and known["status"] == DayStatus.HELD:
            return []
    item = {
        "pk": pk,
        "sk": sk,
        "sync": job.sync,
        "connection_id": job.connection_id,
        "day": plain(day.day),
        "status": plain(day.status),
        "records": day.records,
        "error": day.error,
        "job_id": job.id,
        "destination_connection_id": job.destination_connection_id,
        "updated_at": plain(now),
    }
    return [Put(item=only_set(item))]


def plan_receipts(job: Job, work: ChunkWork, now: datetime) -> list[Write]:
    """The writes of what the destination has made of the chunk's records."""
    last = {receipt.key: receipt.state for receipt in work.receipts}
    stored_as = work.stored_as or job.sync
    return [Put(item=receipt_item(job, stored_as, key, state, now)) for key, state in last.items()]


def receipt_item(
    job: Job, stored_as: str, key: str, state: str, now: datetime, token: int = NO_CLAIM
) -> dict[str, object]:
    """The receipt of a record for the present chunk of a job, claimed for it under `token`."""
    return {
        "pk": keys.receipts(stored_as, job.connection_id, job.destination_connection_id),
        "sk": keys.own_key(key),
        "state": plain(state),
        "job_id": job.id,
        "token": token,
        "step": job.steps,
        "updated_at": plain(now),
    }


def plan_high_water(job: Job, now: datetime) -> list[Write]:
    """The write of the mark of a job that has succeeded and has one."""
    if job.state is not JobState.SUCCESS or job.high_water is None:
        return []
    pk, sk = keys.high_water(job.sync, job.connection_id)
    item = {
        "pk": pk,
        "sk": sk,
        "sync": job.sync,
        "connection_id": job.connection_id,
        "value": to_json(job.high_water),
        "job_id": job.id,
        "updated_at": plain(now),
    }
    return [Put(item=item)]
