"""Finding the user's connections for jobs: the named connection, or the only one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headgate.base.errors import Conflict, HeadgateError, InvalidInput, NotFound
from headgate.flow.find_connection import choose_connection, find_connection
from headgate.flow.registry import Sync, auth_of, title_of
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, check_name
from headgate.model.connection import Connection
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


async def resolve_request(rt: Runtime, request: JobRequest) -> JobRequest:
    """The request with the user's connections filled in; raises if one cannot be used."""
    check_name("user_id", request.user_id)
    sync = rt.registry.get(request.sync)
    found: dict[str, str] = {}
    accounts = _accounts(request, sync) if has_accounts(rt, sync) else ()
    for end, field, given in accounts:
        connection = await find_connection(
            rt.connections,
            end.name,
            user_id=request.user_id,
            given=given,
            title=title_of(end),
            field=field,
            signed_in=True,
        )
        found[field] = connection.id
    return fill_in(request, sync, found)


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


def has_accounts(rt: Runtime, sync: Sync) -> bool:
    """Whether a job of the sync needs a connection of its user."""
    return rt.credentials is not None and any(auth_of(end) is not None for end in sync.ends)


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

    A provider without authorization has no connections; there the user's id stands for one.
    """
    source_id = found.get("connection_id") or request.connection_id or request.user_id
    destination_id = request.destination_connection_id
    if source_id == request.connection_id and sync.destination is None:
        return request
    if sync.destination is not None and auth_of(sync.destination) is not None:
        destination_id = found.get("destination_connection_id") or destination_id or request.user_id
    return replace(request, connection_id=source_id, destination_connection_id=destination_id)
