"""Finding what a request for a job leaves out: the sync, and the user's connections."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headgate.base.errors import Conflict, HeadgateError, InvalidInput, NotFound
from headgate.flow.connections.find import choose_connection, find_connection
from headgate.flow.jobs.submit import JobRequest, check_name, named_mode
from headgate.flow.registry import Registry, Sync, auth_of, title_of
from headgate.flow.runtime import Runtime
from headgate.model.connection import Connection
from headgate.model.job import Mode
from headgate.ports.connector import Destination, Source


class Account(NamedTuple):
    """A user's account at an end of a sync: its connection has to be found."""

    end: Source | Destination
    #: The field of the request that may name the connection, and the connection that it names.
    field: str
    given: str | None


class AccountRefusal(NamedTuple):
    """Why a request has no connection that can be used, and which field would name it."""

    field: str
    error: HeadgateError


async def resolve_request(
    rt: Runtime, request: JobRequest, *, signed_in: bool = True
) -> JobRequest:
    """The request with its sync and the user's own connections; raises if one cannot be used.

    Without `signed_in`, a connection may be one whose user has to sign in again first.
    """
    check_name("user_id", request.user_id)
    request = with_sync(rt.registry, request)
    sync = rt.registry.get(request.sync)
    found: dict[str, str] = {}
    for end, field, given in _accounts(request, sync):
        connection = await find_connection(
            rt.connections,
            end.name,
            user_id=request.user_id,
            given=given,
            title=title_of(end),
            field=field,
            signed_in=signed_in,
        )
        found[field] = connection.id
    return fill_in(request, sync, found)


def with_sync(registry: Registry, request: JobRequest) -> JobRequest:
    """The request with its sync, which has the request's source and destination."""
    if request.source is None:
        if request.destination is not None:
            raise InvalidInput("source", "is missing beside the destination")
        return request
    mode = named_mode(request)
    if mode is not None and mode not in list(Mode):
        raise InvalidInput("mode", f"{str(mode)!r} is not one of {', '.join(Mode)}")
    wanted = request.source, request.destination
    syncs = [sync for sync in registry if mode is None or mode in sync.modes]
    found = [sync for sync in syncs if _ends(sync) == wanted]
    if not found:
        routes = ", ".join(sorted({_route(*_ends(sync)) for sync in syncs})) or "none"
        known = any(sync.source.name == request.source for sync in syncs)
        raise InvalidInput(
            "destination" if known else "source",
            f"no sync imports {mode or 'anything'} {_route(*wanted)}; there are: {routes}",
        )
    named = [sync for sync in found if request.sync in (None, sync.name)]
    if len(named) != 1:
        names = ", ".join(sync.name for sync in found)
        raise InvalidInput("sync", f"name one of these {_route(*wanted)}: {names}")
    return replace(request, sync=named[0].name, source=None, destination=None)


def _ends(sync: Sync) -> tuple[str, str | None]:
    return sync.source.name, None if sync.destination is None else sync.destination.name


def _route(source: str, destination: str | None) -> str:
    return f"from {source}" + ("" if destination is None else f" to {destination}")


async def resolve_many(
    rt: Runtime, requests: Sequence[tuple[JobRequest, Sync]]
) -> Sequence[JobRequest | AccountRefusal]:
    """Requests of syncs with accounts, with the connections filled in, or why one has none.

    The connections of all users are found by one read.
    """
    accounts = [_accounts(request, sync) for request, sync in requests]
    ids, users = set[str](), set[str]()
    for (request, _), wanted in zip(requests, accounts, strict=True):
        for account in wanted:
            if account.given is None:
                users.add(request.user_id)
            else:
                ids.add(account.given)
    own: dict[str, list[Connection]] = {}
    for each in await rt.connections.find_many(sorted(ids), sorted(users)):
        own.setdefault(each.user_id, []).append(each)
    return [
        _resolved(request, sync, wanted, own.get(request.user_id, []))
        for (request, sync), wanted in zip(requests, accounts, strict=True)
    ]


def _resolved(
    request: JobRequest, sync: Sync, accounts: Sequence[Account], own: Sequence[Connection]
) -> JobRequest | AccountRefusal:
    found: dict[str, str] = {}
    for end, field, given in accounts:
        try:
            chosen = choose_connection(
                own, end.name, given=given, title=title_of(end), field=field, signed_in=True
            )
        except (Conflict, InvalidInput, NotFound) as error:
            return AccountRefusal(field, error)
        found[field] = chosen.id
    return fill_in(request, sync, found)


def has_accounts(sync: Sync) -> bool:
    """Whether a job of the sync needs a connection of its user."""
    return any(auth_of(end) is not None for end in sync.ends)


def _accounts(request: JobRequest, sync: Sync) -> Sequence[Account]:
    """The accounts of the user that the job needs, at ends that have accounts."""
    accounts = [Account(sync.source, "connection_id", request.connection_id)]
    if sync.destination is not None:
        given = request.destination_connection_id
        accounts.append(Account(sync.destination, "destination_connection_id", given))
    return [account for account in accounts if auth_of(account.end) is not None]


#: No connection was found, because none was looked for.
NONE_FOUND: Mapping[str, str] = {}


def fill_in(request: JobRequest, sync: Sync, found: Mapping[str, str] = NONE_FOUND) -> JobRequest:
    """The request with the connections that were `found`, by field.

    At a source without `auth` the connection is the user's id, which also stands for one that is
    still to be found.
    """
    source_id = found.get("connection_id") or request.connection_id or request.user_id
    destination_id = request.destination_connection_id
    if source_id == request.connection_id and sync.destination is None:
        return request
    if sync.destination is not None and auth_of(sync.destination) is not None:
        destination_id = found.get("destination_connection_id") or destination_id or request.user_id
    return replace(request, connection_id=source_id, destination_connection_id=destination_id)
