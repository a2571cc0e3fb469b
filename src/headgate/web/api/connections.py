"""Users' connections to providers, under /v1."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.base.errors import InvalidInput
from headgate.model.account import Connection, ConnectionReason
from headgate.model.states import ConnectionState
from headgate.ports.auth import CodeAuth
from headgate.toolkit.api import examples
from headgate.toolkit.api import responses as answers
from headgate.toolkit.api.documents import LinkDocument, Name, Page, shows, takes
from headgate.toolkit.api.route import (
    REPEATABLE,
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

routes = router("/v1/connections", "Connections")


class Connect(BaseModel):
    """The provider whose account a user is to connect."""

    model_config = takes(examples.CONNECT)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    connection_id: Name | None = Field(
        default=None, description="One that is to be connected again, to the same account."
    )


class ConnectionDocument(BaseModel):
    """A user's link to a provider."""

    model_config = shows(examples.CONNECTION)

    id: str
    user_id: str
    source: str
    state: ConnectionState
    reason: ConnectionReason
    error: str | None
    external_id: str | None = Field(description="What the provider calls the account.")
    scopes: list[str]
    expires_at: datetime | None = Field(description="When the access token ends.")
    created_at: datetime
    updated_at: datetime


class ConnectionPage(Page[ConnectionDocument]):
    """A user's connections."""

    model_config = shows({"data": [examples.CONNECTION], "next_cursor": None})


def _shown(connection: Connection) -> ConnectionDocument:
    fields = {name: getattr(connection, name) for name in ConnectionDocument.model_fields}
    return ConnectionDocument(**{**fields, "scopes": list(connection.scopes)})


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
    page = [_shown(each) for each in found[:limit]]
    more = page[-1].id if len(found) > limit else None
    return answers.document(ConnectionPage(data=page, next_cursor=more))


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
    auths = site.app.registry.auths
    if not isinstance(auths.get(body.source), CodeAuth):
        there_are = ", ".join(sorted(n for n, each in auths.items() if isinstance(each, CodeAuth)))
        raise InvalidInput(
            "source", f"users connect to no {body.source!r}; there are: {there_are or 'none'}"
        )
    if body.connection_id is not None:
        known = await site.app.connections.get(body.connection_id, user_id=user_id)
        if known.source != body.source:
            raise InvalidInput("connection_id", f"{known.id} is not to {body.source}")
    path = site.links.connect(source=body.source, user_id=user_id, connection_id=body.connection_id)
    made = site.links.open_connect(path.removeprefix(CONNECT_PATH))
    return answers.secret(LinkDocument(url=f"{site.public_url}{path}", expires_at=made.expires_at))


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
    return answers.document(_shown(await known.pause(connection_id, user_id=caller.owner)))


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
    return answers.document(_shown(await known.resume(connection_id, user_id=caller.owner)))


@routes.delete(
    "/{connection_id}",
    operation_id="remove_connection",
    summary="Forget a connection with its credentials, and what was fetched one by one for it",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "It is gone."}, **writes("not_found")},
)
async def remove(app: TheApp, caller: TheCaller, connection_id: ConnectionId) -> Response:
    """Its items go with it, with what was fetched for them; imported records stay."""
    await app.connections.remove(connection_id, user_id=caller.owner)
    return Response(status_code=204)
