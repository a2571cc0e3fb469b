"""The coverage of a connection's history: which days are held, empty or failed."""

from collections.abc import Sequence
from datetime import date, datetime

from headgate.base.errors import StoreError
from headgate.model.job import Job
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.jobs.submission import NewJob
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.port import DynamoPort, on_table
from headgate.store.dynamodb.engine.rows import RowCodec, only_set, plain
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Put, Write

_CODEC = RowCodec(CoverageRow)
#: More days than any range has.
_DAYS_MAX = 100_000


async def list_days(
    table: DynamoTable, sync: str, connection_id: str, start: date, end: date
) -> Sequence[CoverageRow]:
    """The coverage of the days from `start` to `end`, both included, in order."""
    items = await _days(table, sync, connection_id, start, end)
    return [_CODEC.from_item(item) for item in items]


async def _days(
    table: DynamoTable, sync: str, connection_id: str, start: date, end: date
) -> list[Attributes]:
    if end < start:
        return []
    which = KeyRange(
        pk=keys.coverage(sync, connection_id), first=start.isoformat(), last=end.isoformat()
    )
    return await table.query_all(which, limit=_DAYS_MAX)


async def covered_days(
    table: DynamoTable, new: Sequence[NewJob]
) -> Sequence[Sequence[CoverageRow]]:
    """For each new job, the coverage of its days whose records went to the same account."""
    return await gather(_covered_days(table, each) for each in new)


async def _covered_days(table: DynamoTable, new: NewJob) -> Sequence[CoverageRow]:
    if new.start_date is None or new.end_date is None:
        return []
    items = await _days(table, new.sync, new.connection_id, new.start_date, new.end_date)
    return [
        _CODEC.from_item(item)
        for item in items
        if item.get("destination_connection_id") == new.destination_connection_id
    ]


async def list_gaps(
    table: DynamoTable, job_id: str, sync: str, connection_id: str, *, limit: int
) -> Sequence[CoverageRow]:
    """Days of the job that failed or are incomplete, the newest first."""
    which = KeyRange(
        pk=keys.coverage(sync, connection_id),
        where="#job_id = :job AND attribute_exists(#error)",
        values={"job": job_id},
        newest_first=True,
    )
    return [_CODEC.from_item(item) for item in await table.query_all(which, limit=limit)]


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


class DynamoCoverage(DynamoPort):
    """The coverage of histories in DynamoDB."""

    list_days = on_table(list_days)
    covered_days = on_table(covered_days)
    list_gaps = on_table(list_gaps)
