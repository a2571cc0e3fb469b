"""Writing of one chunk to the sync's destination.

The destination is opened before the chunk is read, because a chunk that cannot be written need
not be read. Errors here are the destination's, and open its breaker.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headgate.base.errors import HeadgateError, SourceError, Transient
from headgate.base.redact import describe_error
from headgate.flow.estimate.effort import ChunkTimes
from headgate.flow.registry import Sync, budget_of
from headgate.flow.runtime import Runtime
from headgate.flow.step.connector_bug import classify
from headgate.flow.step.open_api import open_api
from headgate.model.job import Job
from headgate.ports.connector import Batch, Chunk, Destination, Http, WriteResult


class OpenDestination(msgspec.Struct, frozen=True):
    """A destination whose API is open."""

    destination: Destination
    api: Http | None


async def open_destination(
    rt: Runtime, sync: Sync, job: Job, times: ChunkTimes
) -> OpenDestination | None:
    """The sync's destination, ready for writes; None if the records are stored here."""
    destination = sync.destination
    if destination is None:
        return None
    connection_id = job.destination_connection_id
    time = times.at(destination.name)
    gate = rt.gates.of(budget_of(destination), job.lane, connection_id or job.connection_id, time)
    with _blame(destination):
        api = await open_api(rt, destination, connection_id, job, gate)
    return OpenDestination(destination, api)


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
    with _blame(to.destination):
        return await to.destination.write(batch) or WriteResult()


@contextmanager
def _blame(destination: Destination) -> Iterator[None]:
    """Mark every error in the block that is not our own as the destination's."""
    try:
        yield
    except SourceError as error:
        error.provider = error.provider or destination.name
        raise
    except HeadgateError:
        # The store's or the application's.
        raise
    except Exception as error:
        bug = classify(error)
        failure = bug if isinstance(bug, SourceError) else Transient(describe_error(error))
        failure.provider = destination.name
        raise failure from error
