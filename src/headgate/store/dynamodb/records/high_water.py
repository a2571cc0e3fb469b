"""High-water marks: how far each sync has read for a connection. Only a job's success moves one."""

from datetime import datetime

from headgate.base.encoding import Json, from_json, to_json
from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.rows import plain
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import Put, Write


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


async def find_mark(table: DynamoTable, sync: str, connection_id: str) -> Json:
    """The high-water mark of the sync for the connection; None if none is stored."""
    item = await table.get(keys.high_water(sync, connection_id))
    return None if item is None else from_json(item["value"])
