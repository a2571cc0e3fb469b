"""Reading one chunk: tell the source where it stands, ask it, and check what it gave."""

from datetime import datetime
from typing import Any

from headgate.base.errors import NoData
from headgate.flow.check_chunk import check_chunk
from headgate.flow.fetch_item import JobItems
from headgate.flow.open_api import open_api
from headgate.flow.registry import Sync, budget_of
from headgate.flow.runtime import Runtime
from headgate.model.job import Job
from headgate.ports.connector import Chunk, Context, Gate, Http


async def extract(rt: Runtime, sync: Sync, job: Job) -> Chunk:
    """The next chunk of `job`."""
    gate = rt.gates.of(budget_of(sync.source), job.lane, job.connection_id)
    api = await open_api(rt, sync.source, job.connection_id, job, gate)
    try:
        chunk = await sync.source.read(context(rt, sync, job, gate, api))
    except NoData:
        chunk = Chunk()
    check_chunk(chunk, job)
    return chunk


def context(rt: Runtime, sync: Sync, job: Job, gate: Gate, api: Http | None) -> Context:
    """What the source is told."""
    params: dict[str, Any] = dict(job.params)
    since = params.get("since")
    day = job.cursor_date
    return Context(
        job_id=job.id,
        user_id=job.user_id,
        connection_id=job.connection_id,
        sync=job.sync,
        mode=job.mode,
        day=day,
        cursor=None if day is not None else job.cursor,
        since=None if since is None else datetime.fromisoformat(since),
        limit=params.get("limit"),
        high_water=params.get("high_water"),
        options=params.get("options", {}),
        chunks=job.summary.chunks,
        records=job.summary.records,
        clock=rt.clock,
        gate=gate,
        api=api,
        item_work=JobItems(rt.fetching, job.connection_id),
        find_hashes=lambda keys: rt.store.record_hashes(job.sync, job.connection_id, keys),
    )
