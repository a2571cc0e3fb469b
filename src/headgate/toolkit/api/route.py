"""The checks that every API request passes, whatever its route.

The caller is authenticated before the body is read. The checks are part of the route's class, so a
new route has them by itself, and none can forget them.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.responses import Response

from headgate.app import App
from headgate.flow.users.api_keys import ApiKeys
from headgate.model.api_key import Role
from headgate.toolkit.api import bodies, idempotency, problems
from headgate.toolkit.api.auth import KEY_HEADER, Caller, authenticate
from headgate.toolkit.api.idempotency import IdempotentRequests
from headgate.toolkit.api.limits import Limits
from headgate.toolkit.api.streams.event_stream import EventStreams
from headgate.toolkit.api.streams.job_watch import JobWatch
from headgate.toolkit.site import Site

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the routes work with; stored as `request.app.state.api`."""

    site: Site
    keys: ApiKeys
    limits: Limits
    #: Limits requests without a valid API key, by their address.
    anonymous: Limits
    idempotent: IdempotentRequests
    streams: EventStreams
    watch: JobWatch


class ApiRoute(APIRoute):
    """A route that needs an API key."""

    def get_route_handler(self) -> Handler:
        """Return the route's handler, behind the checks of every route."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await _admit(request, handler)
            except Exception as error:
                return problems.problem_response(request, error)

        return handle


async def _admit(request: Request, handler: Handler) -> Response:
    api: ApiContext = request.app.state.api
    caller = await authenticate(request, api.keys, api.anonymous)
    api.limits.spend(caller.key.id)
    request.state.caller = caller
    if request.method == "GET":
        return await handler(request)
    if caller.key.role is Role.READER:
        raise caller.deny("a reader's API key may only read")
    await bodies.check_body(request)
    if request.method != "POST":
        return await handler(request)

    async def carry_out() -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return problems.problem_response(request, error)

    return await api.idempotent.answer(request, caller.key.id, carry_out)


# ---- dependencies of a route -------------------------------------------------------------------


async def _api(request: Request) -> ApiContext:
    api: ApiContext = request.app.state.api
    return api


async def _site(request: Request) -> Site:
    return (await _api(request)).site


async def _app(request: Request) -> App:
    return (await _api(request)).site.app


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _admin(request: Request) -> Caller:
    caller = await _caller(request)
    if not caller.is_admin:
        raise caller.deny("only an admin's API key may do this")
    return caller


async def _job_key(request: Request) -> str | None:
    caller = await _caller(request)
    return idempotency.job_key(caller.key.id, idempotency.request_key(request))


TheSite = Annotated[Site, Depends(_site)]
TheApp = Annotated[App, Depends(_app)]
TheCaller = Annotated[Caller, Depends(_caller)]
TheAdmin = Annotated[Caller, Depends(_admin)]
#: The job's key: the same request, sent again, gets the same job.
JobKey = Annotated[str | None, Depends(_job_key)]


# ---- declaring a route -------------------------------------------------------------------------

_bearer = HTTPBearer(
    scheme_name="ApiKey", description="A key made by `headgate api-key new`.", auto_error=False
)
_key_header = APIKeyHeader(
    name=KEY_HEADER,
    scheme_name="ApiKeyHeader",
    description="The same key, for callers that cannot send `Authorization`.",
    auto_error=False,
)


async def _idempotency_header(
    key: Annotated[
        str | None,
        Header(
            alias=idempotency.HEADER,
            description="The same key again gets the same response, and nothing is done twice.",
            pattern=idempotency.KEY_PATTERN,
        ),
    ] = None,
) -> None:
    """Describe the header; `idempotency.py` does the work."""


#: A dependency of every POST: describes the Idempotency-Key header.
IDEMPOTENT = Depends(_idempotency_header)
IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of your version: 304 if it has not changed.")
]

_ALWAYS = ("unauthorized", "too_many_requests", "internal_error", "store_unavailable")
_WRITES = ("malformed_json", "forbidden", "payload_too_large", "unsupported_media_type")
_POSTS = ("request_in_flight", "idempotency_key_reused")


def get_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Describe the problems of a GET: those of every route, and these."""
    return problems.problem_responses(*_ALWAYS, "forbidden", "invalid_input", *codes)


def write_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Describe the problems of a PUT or DELETE: those of every such route, and these."""
    return problems.problem_responses(*_ALWAYS, *_WRITES, "invalid_input", *codes)


def post_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Describe the problems of a POST: those of every POST, and these."""
    return problems.problem_responses(*_ALWAYS, *_WRITES, "invalid_input", *_POSTS, *codes)


def router(prefix: str, tag: str) -> APIRouter:
    """Return a router whose routes need an API key."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=ApiRoute,
        dependencies=[Security(_bearer), Security(_key_header)],
    )
