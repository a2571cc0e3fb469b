"""Finding the user's connections for a job: the named connection, or the only one."""

from msgspec.structs import replace

from headgate.flow.find_connection import find_connection
from headgate.flow.registry import auth_of, title_of
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, check_name
from headgate.ports.connections import ConnectionStore
from headgate.ports.connector import Destination, Source


async def resolve_request(
    rt: Runtime, connections: ConnectionStore, request: JobRequest
) -> JobRequest:
    """The request with the user's connections filled in; raises if one cannot be used.

    A provider without authorization has no connections; there the user's id stands for one.
    """
    user_id = check_name("user_id", request.user_id)
    sync = rt.registry.get(request.sync)

    async def find(end: Source | Destination, field: str, given: str | None) -> str:
        if auth_of(end) is None or rt.credentials is None:
            return given or user_id
        connection = await find_connection(
            connections,
            end.name,
            user_id=user_id,
            given=given,
            title=title_of(end),
            field=field,
            signed_in=True,
        )
        return connection.id

    source_id = await find(sync.source, "connection_id", request.connection_id)
    destination_id = request.destination_connection_id
    if sync.destination is not None and auth_of(sync.destination) is not None:
        destination_id = await find(sync.destination, "destination_connection_id", destination_id)
    return replace(request, connection_id=source_id, destination_connection_id=destination_id)
