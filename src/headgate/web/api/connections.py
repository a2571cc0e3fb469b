"""Users' connections to providers, under /v1."""

from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.flow.connect import VALUE_LENGTH_MAX, ConnectBy
from headgate.flow.documents import connection_document, page_document
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.states import ConnectionState
from headgate.toolkit.api import examples
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import LinkDocument, Name, Page, shows, takes
from headgate.toolkit.api.jobs import NOT_MODIFIED
from headgate.toolkit.api.route import (
    REPEATABLE,
    IfNoneMatch,
    TheApp,
    TheCaller,
    TheSite,
    posts,
    reads,
    router,
    writes,
)
from headgate.toolkit.links import CONNECT_PATH

PAGE_MAX = 200
ConnectionId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="The connection.")
]

_LOCATION = {"Location": {"schema": {"type": "string"}}}

routes = router("/v1/connections", "Connections")


class Connect(BaseModel):
    """The provider whose account a user is to connect."""

    model_config = takes(examples.CONNECT)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    connection_id: Name | None = Field(
        default=None, description="One that is to be connected again, to the same account."
    )


class HandOver(BaseModel):
    """A token that a user copied from the provider, and whose account it opens."""

    model_config = takes(examples.HAND_OVER)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    token: str = Field(
        min_length=1,
        max_length=VALUE_LENGTH_MAX,
        repr=False,
        description="One line of printable ASCII. It is stored encrypted, and never told again.",
        json_schema_extra={"format": "password", "writeOnly": True},
    )
    external_id: Name | None = Field(
        default=None,
        description="What the provider calls the account: the same again gets the new token, and "
        "makes no second connection.",
    )
    connection_id: Name | None = Field(
        default=None, description="One whose token is to be replaced, of the same account."
    )


class ConnectionDocument(BaseModel):
    """A user's link to a provider."""

    model_config = shows(examples.CONNECTION)

    id: str
    user_id: str
    source: str
    state: ConnectionState
    reason: ConnectionReason
    message: str | None = Field(description="For the user: what happened, and what to do.")
    error: str | None = Field(description="The last error, for an admin's key; else null.")
    external_id: str | None = Field(description="What the provider calls the account.")
    scopes: list[str]
    expires_at: datetime | None = Field(description="When the access token ends.")
    created_at: datetime
    updated_at: datetime


class ConnectionPage(Page[ConnectionDocument]):
    """A user's connections."""

    model_config = shows({"data": [examples.CONNECTION], "next_cursor": None})


def _shown(connection: Connection, caller: Caller) -> ConnectionDocument:
    return ConnectionDocument.model_validate(
        connection_document(connection, operator=caller.is_admin)
    )


@routes.get(
    "",
    operation_id="list_connections",
    summary="List a user's connections",
    response_model=ConnectionPage,
    responses=reads(),
)
async def list_connections(
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="An admin's key has to name one.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")] = 50,
    after: Annotated[Name | None, Query(description="`next_cursor`.")] = None,
) -> Response:
    """Their states, and never what is secret about them."""
    user_id = caller.acting_for(user_id)
    found = await app.connections.of_user(user_id, limit=limit + 1, after=after)
    document = partial(connection_document, operator=caller.is_admin)
    page = page_document(found, limit, document)
    return answers.document(ConnectionPage.model_validate(page))


@routes.get(
    "/{connection_id}",
    operation_id="get_connection",
    summary="How a connection stands",
    response_model=ConnectionDocument,
    responses={**NOT_MODIFIED, **reads("not_found")},
)
async def get_connection(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    connection_id: ConnectionId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Its state, and never what is secret about it."""
    found = await app.connections.get(connection_id, user_id=caller.owner)
    return answers.polled(request, _shown(found, caller))


@routes.post(
    "",
    operation_id="make_connect_link",
    summary="A link that lets a user connect an account",
    response_model=LinkDocument,
    dependencies=[REPEATABLE],
    responses=posts("not_found"),
)
async def connect(site: TheSite, caller: TheCaller, body: Connect) -> Response:
    """It leads to the provider's own page and back."""
    user_id = caller.acting_for(body.user_id)
    _check_way(site.app, body.source, ConnectBy.PAGE)
    if body.connection_id is not None:
        known = await site.app.connections.get(body.connection_id, user_id=user_id)
        if known.source != body.source:
            raise InvalidInput("connection_id", f"{known.id} is not to {body.source}")
    path = site.links.connect(source=body.source, user_id=user_id, connection_id=body.connection_id)
    made = site.links.open_connect(path.removeprefix(CONNECT_PATH))
    return answers.secret(LinkDocument(url=f"{site.public_url}{path}", expires_at=made.expires_at))


@routes.post(
    "/tokens",
    operation_id="connect_with_token",
    summary="Connect an account by a token that its user copied from the provider",
    status_code=201,
    response_model=ConnectionDocument,
    dependencies=[REPEATABLE],
    responses={
        200: {
            "model": ConnectionDocument,
            "description": "The account was connected before, and has the new token now.",
            "headers": _LOCATION,
        },
        201: {"description": "The account is connected.", "headers": _LOCATION},
        **posts("not_found", "conflict"),
    },
)
async def connect_with_token(app: TheApp, caller: TheCaller, body: HandOver) -> Response:
    """For providers without a page to consent on. No answer and no log holds the token."""
    user_id = caller.acting_for(body.user_id)
    _check_way(app, body.source, ConnectBy.TOKEN)
    connection = await app.connections.connect_with_token(
        body.source,
        Secret(body.token),
        user_id=user_id,
        external_id=body.external_id,
        connection_id=body.connection_id,
    )
    return answers.document(
        _shown(connection, caller),
        # The version goes up whenever a connection that was there gets other credentials.
        status=201 if connection.version == 1 else 200,
        headers={"Location": f"/v1/connections/{connection.id}"},
    )


def _check_way(app: App, source: str, wanted: ConnectBy) -> None:
    """Refuse a source that is connected in the other way, and say where."""
    way = app.connections.connects_by(source)
    if way is wanted:
        return
    if way is ConnectBy.PAGE:
        problem = "is connected on the provider's page: ask POST /v1/connections for a link to it"
    else:
        problem = "has no page to connect on: hand the token over to POST /v1/connections/tokens"
    raise InvalidInput("source", f"{source!r} {problem}")


@routes.post(
    "/{connection_id}/pause",
    operation_id="pause_connection",
    summary="Let a connection's jobs wait",
    response_model=ConnectionDocument,
    dependencies=[REPEATABLE],
    responses=posts("not_found", "illegal_transition"),
)
async def pause(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Until it is resumed."""
    known = app.connections
    paused = await known.pause(connection_id, user_id=caller.owner)
    return answers.document(_shown(paused, caller))


@routes.post(
    "/{connection_id}/resume",
    operation_id="resume_connection",
    summary="Let a connection's jobs go on",
    response_model=ConnectionDocument,
    dependencies=[REPEATABLE],
    responses=posts("not_found", "illegal_transition"),
)
async def resume(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Those that wait look again within five minutes."""
    known = app.connections
    resumed = await known.resume(connection_id, user_id=caller.owner)
    return answers.document(_shown(resumed, caller))


@routes.delete(
    "/{connection_id}",
    operation_id="remove_connection",
    summary="Forget a connection with its credentials, and what was fetched one by one for it",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "It is gone."}, **writes("not_found")},
)
async def remove(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Its items go with it, and what was fetched for them; imported records stay."""
    await app.connections.remove(connection_id, user_id=caller.owner)
    return Response(status_code=204)
