"""Finding a user's connection to a provider: the one that is named, or the only one."""

from collections.abc import Iterable

from headgate.base.errors import InvalidInput, NotConnected, NotFound
from headgate.model.connection import Connection
from headgate.model.states import ConnectionState
from headgate.ports.connections.store import ConnectionStore

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
    own = (
        await store.list_connections(user_id, limit=LIST_MAX)
        if given is None
        else [await store.get(given, user_id=user_id)]
    )
    return choose_connection(
        own, source, given=given, title=title, field=field, signed_in=signed_in
    )


def choose_connection(
    own: Iterable[Connection],
    source: str,
    *,
    given: str | None,
    title: str | None = None,
    field: str = "connection_id",
    signed_in: bool = False,
) -> Connection:
    """The connection that `find_connection` finds, among a user's `own` ones."""
    label = title or source
    at_source = [each for each in own if each.source == source]
    found = (
        _only_connection(at_source, source, label, field)
        if given is None
        else next((each for each in at_source if each.id == given), None)
    )
    if found is None:
        raise NotFound(f"there is no connection {given!r} to {label}")
    if signed_in and found.state is ConnectionState.NEEDS_REAUTH:
        raise NotConnected(source, f"{label} needs the user to sign in again first")
    return found


def _only_connection(
    at_source: list[Connection], source: str, label: str, field: str
) -> Connection:
    if not at_source:
        raise NotConnected(source, f"the user has not connected {label} yet")
    if len(at_source) > 1:
        ids = ", ".join(each.id for each in at_source)
        raise InvalidInput(field, f"the user has several accounts at {label}: {ids}")
    return at_source[0]
