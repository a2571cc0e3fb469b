"""Opening of a provider's API for one chunk, with the user's token and the budget.

The destination is opened before the chunk is read, because a chunk that cannot be written need
not be read.
"""

import msgspec

from headgate.base.errors import Terminal
from headgate.flow.estimate.effort import ChunkTimes
from headgate.flow.registry import Sync, budget_of, provider_of
from headgate.flow.runtime import Runtime
from headgate.flow.step.connector_bug import blame_destination
from headgate.model.job import Job
from headgate.ports.connector import Destination, Source
from headgate.ports.http import ClientOptions, Gate, Http


async def open_api(
    rt: Runtime, end: Source | Destination, connection_id: str | None, job: Job, gate: Gate
) -> Http | None:
    """The provider's API for this chunk; None if the source or the destination has none.

    Raises AuthExpired if the user must connect the account, and ConnectionPaused if the connection
    is paused.
    """
    provider = provider_of(end)
    if provider is None:
        return None
    if rt.transport is None:
        raise Terminal(f"{end.name!r} has an API, but the application has no HTTP transport")
    access = None
    auth = rt.registry.auths.get(end.name)
    if auth is not None:
        if rt.credentials is None:
            raise Terminal(f"{end.name!r} needs credentials, but no encryption keys are set")
        if connection_id is None:
            raise Terminal(f"the job names no connection to {end.name!r}")
        access = await rt.credentials.open(
            auth, connection_id, user_id=job.user_id, source=end.name
        )
    options = ClientOptions(
        gate=gate, transport=rt.transport, access=access, clock=rt.clock, rng=rt.rng
    )
    return provider.open_http(options)


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
    with blame_destination(destination):
        api = await open_api(rt, destination, connection_id, job, gate)
    return OpenDestination(destination, api)
