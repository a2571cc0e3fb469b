"""The API for connections, under /v1/connections: list, connect, pause, resume, remove."""

from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.flow.connections.service import VALUE_LENGTH_MAX, ConnectBy
from headgate.flow.connections.view import ConnectionView, connection_view
from headgate.model.connection import Connection
from headgate.secrets.links import CONNECT_PATH
from headgate.toolkit.api import examples, responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import LinkDocument, Name, request_config, view_for_caller
from headgate.toolkit.api.jobs import NOT_MODIFIED
from headgate.toolkit.api.models import model_of, page_model
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    IfNoneMatch,
    TheApp,
    TheCaller,
    TheSite,
    get_problems,
    post_problems,
    router,
    write_problems,
)
from headgate.toolkit.paging import page_of

PAGE_MAX = 200
ConnectionId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="The connection.")
]

_LOCATION = {"Location": {"schema": {"type": "string"}}}

routes = router("/v1/connections", "Connections")


class Connect(BaseModel):
    """The source whose account a user is to connect."""

    model_config = request_config(examples.CONNECT)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    connection_id: Name | None = Field(
        default=None, description="A connection to connect again, to the same account."
    )


class HandOver(BaseModel):
    """A token that a user copied from the provider, and the account that it belongs to."""

    model_config = request_config(examples.HAND_OVER)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    token: str = Field(
        min_length=1,
        max_length=VALUE_LENGTH_MAX,
        repr=False,
        description="One line of printable ASCII. It is stored encrypted, and never sent back.",
        json_schema_extra={"format": "password", "writeOnly": True},
    )
    external_id: Name | None = Field(
        default=None,
        description="The provider's id of the account. If it is connected already, it gets the new "
        "token, and there is no second connection.",
    )
    connection_id: Name | None = Field(
        default=None, description="A connection whose token to replace, to the same account."
    )


ConnectionModel = model_of(ConnectionView, examples.CONNECTION)
ConnectionPageModel = page_model(
    "ConnectionPage", "A user's connections.", ConnectionView, examples.CONNECTION
)


def _view(connection: Connection, caller: Caller) -> ConnectionView:
    return view_for_caller(connection_view(connection), caller)


@routes.get(
    "",
    operation_id="list_connections",
    summary="List a user's connections",
    response_model=ConnectionPageModel,
    responses=get_problems(),
)
async def list_connections(
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="An admin's key has to name one.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")] = 50,
    after: Annotated[Name | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Lists their states; credentials are never part of a response."""
    user_id = caller.require_user(user_id)
    found = await app.connections.of_user(user_id, limit=limit + 1, after=after)
    return responses.json_response(page_of([_view(each, caller) for each in found], limit))


@routes.get(
    "/{connection_id}",
    operation_id="get_connection",
    summary="Get a connection",
    response_model=ConnectionModel,
    responses={**NOT_MODIFIED, **get_problems("not_found")},
)
async def get_connection(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    connection_id: ConnectionId,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Shows its state; credentials are never part of a response."""
    found = await app.connections.get(connection_id, user_id=caller.owner)
    return responses.etag_response(request, _view(found, caller))


@routes.post(
    "",
    operation_id="make_connect_link",
    summary="Make a link by which a user connects an account",
    response_model=LinkDocument,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def connect(site: TheSite, caller: TheCaller, body: Connect) -> Response:
    """The link leads to the provider's own page and back."""
    user_id = caller.require_user(body.user_id)
    _check_way(site.app, body.source, ConnectBy.PAGE)
    if body.connection_id is not None:
        known = await site.app.connections.get(body.connection_id, user_id=user_id)
        if known.source != body.source:
            raise InvalidInput("connection_id", f"{known.id} is not a connection to {body.source}")
    path = site.links.connect_path(
        source=body.source, user_id=user_id, connection_id=body.connection_id
    )
    made = site.links.open_connect(path.removeprefix(CONNECT_PATH))
    return responses.secret_response(
        LinkDocument(url=f"{site.public_url}{path}", expires_at=made.expires_at)
    )


@routes.post(
    "/tokens",
    operation_id="connect_with_token",
    summary="Connect an account with a token that its user copied from the provider",
    status_code=201,
    response_model=ConnectionModel,
    dependencies=[IDEMPOTENT],
    responses={
        200: {
            "model": ConnectionModel,
            "description": "The account was connected before; the new token replaces the old one.",
            "headers": _LOCATION,
        },
        201: {"description": "The account is connected.", "headers": _LOCATION},
        **post_problems("not_found", "conflict"),
    },
)
async def connect_with_token(app: TheApp, caller: TheCaller, body: HandOver) -> Response:
    """For providers without a consent page. No response and no log contains the token."""
    user_id = caller.require_user(body.user_id)
    _check_way(app, body.source, ConnectBy.TOKEN)
    connection = await app.connections.connect_with_token(
        body.source,
        Secret(body.token),
        user_id=user_id,
        external_id=body.external_id,
        connection_id=body.connection_id,
    )
    return responses.json_response(
        _view(connection, caller),
        # The version goes up whenever a connection that was there gets other credentials.
        status=201 if connection.version == 1 else 200,
        headers={"Location": f"/v1/connections/{connection.id}"},
    )


def _check_way(app: App, source: str, wanted: ConnectBy) -> None:
    """Refuse a source that is connected in the other way, and name the path for it."""
    way = app.connections.connects_by(source)
    if way is wanted:
        return
    if way is ConnectBy.PAGE:
        problem = "is connected on the provider's page: ask POST /v1/connections for a link to it"
    else:
        problem = "has no page to connect on: send the token to POST /v1/connections/tokens"
    raise InvalidInput("source", f"{source!r} {problem}")


@routes.post(
    "/{connection_id}/pause",
    operation_id="pause_connection",
    summary="Pause a connection, so that its jobs wait",
    response_model=ConnectionModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found", "illegal_transition"),
)
async def pause(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """The jobs wait until the connection is resumed."""
    paused = await app.connections.pause(connection_id, user_id=caller.owner)
    return responses.json_response(_view(paused, caller))


@routes.post(
    "/{connection_id}/resume",
    operation_id="resume_connection",
    summary="Resume a connection, so that its jobs go on",
    response_model=ConnectionModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found", "illegal_transition"),
)
async def resume(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Jobs that wait for it go on within five minutes."""
    resumed = await app.connections.resume(connection_id, user_id=caller.owner)
    return responses.json_response(_view(resumed, caller))


@routes.delete(
    "/{connection_id}",
    operation_id="remove_connection",
    summary="Remove a connection with its credentials and its items",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "The connection is removed."}, **write_problems("not_found")},
)
async def remove(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Items and their documents are removed too; imported records stay."""
    await app.connections.remove(connection_id, user_id=caller.owner)
    return Response(status_code=204)
