"""Finding a user's connection to a provider: the one that is named, or the only one."""

from headgate.base.errors import InvalidInput, NotConnected, NotFound
from headgate.model.connection import Connection
from headgate.model.states import ConnectionState
from headgate.ports.connections import ConnectionStore

#: The most connections of a user that are listed, or searched.
LIST_MAX = 1000


async def find_connection(
    store: ConnectionStore,
    source: str,
    *,
    user_id: str,
    given: str | None,
    title: str | None = None,
    field: str = "connection_id",
    signed_in: bool = False,
) -> Connection:
    """The user's connection to `source`: the one that is `given`, or the only one.

    With `signed_in`, raises NotConnected if the user has to sign in again.
    """
    label = title or source
    found = (
        await _only_connection(store, source, user_id, label, field)
        if given is None
        else await store.get(given, user_id=user_id)
    )
    if found.source != source:
        raise NotFound(f"there is no connection {given!r} to {label}")
    if signed_in and found.state is ConnectionState.NEEDS_REAUTH:
        raise NotConnected(source, f"{label} needs the user to sign in again first")
    return found


async def _only_connection(
    store: ConnectionStore, source: str, user_id: str, label: str, field: str
) -> Connection:
    connections = await store.list_connections(user_id, limit=LIST_MAX)
    found = [each for each in connections if each.source == source]
    if not found:
        raise NotConnected(source, f"the user has not connected {label} yet")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise InvalidInput(field, f"the user has several accounts at {label}: {ids}")
    return found[0]
