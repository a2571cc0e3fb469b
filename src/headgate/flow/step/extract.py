"""Reading of one chunk: build the source's context, call the source, and check the chunk."""

from headgate.base.encoding import Json
from headgate.base.errors import NoData
from headgate.flow.estimate.effort import ProviderTime
from headgate.flow.items.fetch import JobItems
from headgate.flow.registry import Sync, budget_of
from headgate.flow.runtime import Runtime
from headgate.flow.step.check_chunk import check_chunk
from headgate.flow.step.open_api import open_api
from headgate.flow.step.receipts import find_receipts
from headgate.model.job import Job, Mode
from headgate.ports.connector import Chunk, Context
from headgate.ports.http import Gate, Http


async def extract(rt: Runtime, sync: Sync, job: Job, time: ProviderTime) -> Chunk:
    """Read the next chunk of `job`; `time` measures its requests."""
    gate = rt.gates.of(budget_of(sync.source), job.lane, job.connection_id, time)
    api = await open_api(rt, sync.source, job.connection_id, job, gate)
    try:
        ctx = context(rt, sync, job, gate, api, high_water=await _high_water(rt, job))
        chunk = await sync.source.read(ctx)
    except NoData:
        chunk = Chunk()
    check_chunk(chunk, job, rt.chunk_limits)
    return chunk


async def _high_water(rt: Runtime, job: Job) -> Json:
    """The stored high-water mark, for a job in mode `since` without a time.

    The mark does not move meanwhile: the job is the only active one of its sync and connection.
    """
    if job.mode is not Mode.SINCE or job.params.since is not None:
        return None
    return await rt.records.high_water(job.sync, job.connection_id)


def context(
    rt: Runtime, sync: Sync, job: Job, gate: Gate, api: Http | None, *, high_water: Json = None
) -> Context:
    """The context of the source for the next chunk."""
    day, stored_as = job.cursor_date, sync.records_name
    return Context(
        job_id=job.id,
        user_id=job.user_id,
        connection_id=job.connection_id,
        sync=job.sync,
        mode=job.mode,
        day=day,
        cursor=None if day is not None else job.cursor,
        since=job.params.since,
        limit=job.params.limit,
        high_water=high_water,
        options=job.params.options,
        chunks=job.summary.chunks,
        records=job.summary.records,
        clock=rt.clock,
        gate=gate,
        api=api,
        item_work=None if rt.fetching is None else JobItems(rt.fetching, job),
        find_hashes=lambda keys: rt.records.record_hashes(stored_as, job.connection_id, keys),
        find_records=lambda keys: rt.records.record_data(stored_as, job.connection_id, keys),
        find_receipts=lambda keys: find_receipts(rt, sync, job, keys),
    )
