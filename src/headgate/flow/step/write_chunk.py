"""Writing of one chunk to the sync's destination."""

from headgate.flow.runtime import Runtime
from headgate.flow.step.connector_bug import blame_destination
from headgate.flow.step.open_api import OpenDestination
from headgate.model.job import Job
from headgate.ports.connector import Batch, Chunk, WriteResult


async def write_chunk(rt: Runtime, job: Job, chunk: Chunk, to: OpenDestination) -> WriteResult:
    """Write the chunk's records; returns the destination's result."""
    if not chunk.records:
        return WriteResult()
    batch = Batch(
        key=job.chunk_key,
        user_id=job.user_id,
        connection_id=job.connection_id,
        destination_connection_id=job.destination_connection_id,
        sync=job.sync,
        day=job.cursor_date,
        records=chunk.records,
        clock=rt.clock,
        api=to.api,
    )
    with blame_destination(to.destination):
        return await to.destination.write(batch) or WriteResult()
