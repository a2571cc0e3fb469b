"""What every request to the API passes through, whichever route it asks for.

Who calls is known before anything that they sent is read. A route is part of the API by its class,
so that one that is added later has all of this, and none can do without by forgetting it.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.responses import Response

from headgate.app import App
from headgate.flow.api_keys import ApiKeys
from headgate.model.api_key import Role
from headgate.toolkit.api import bodies, idempotency, problems
from headgate.toolkit.api.auth import Caller, authenticate
from headgate.toolkit.api.idempotency import IdempotentRequests
from headgate.toolkit.api.limits import Limits
from headgate.toolkit.api.problems import ProblemError
from headgate.toolkit.site import Site

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the routes need at hand; `request.app.state.api`."""

    site: Site
    keys: ApiKeys
    limits: Limits
    #: Of those who come without a good key, by their address.
    strangers: Limits
    once: IdempotentRequests


class ApiRoute(APIRoute):
    """A route for those who hold a key."""

    def get_route_handler(self) -> Handler:
        """The route's own handler, behind what all of them have in common."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await _admit(request, handler)
            except Exception as error:
                return problems.answer(request, error)

        return handle


async def _admit(request: Request, handler: Handler) -> Response:
    api: ApiContext = request.app.state.api
    host = request.client.host if request.client is not None else ""
    api.strangers.check(host)
    try:
        caller = await authenticate(request, api.keys)
    except ProblemError:
        api.strangers.spend(host)
        raise
    api.limits.spend(caller.key.id)
    request.state.caller = caller
    if request.method == "GET":
        return await handler(request)
    if caller.key.role is Role.READER:
        raise caller.denied("a reader's key only reads")
    await bodies.check(request)
    if request.method != "POST":
        return await handler(request)

    async def carry_out() -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return problems.answer(request, error)

    return await api.once.answer(request, caller.key.id, carry_out)


# ---- what a route may ask for ------------------------------------------------------------------


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
        raise caller.denied("only an admin's key may do this")
    return caller


async def _job_key(request: Request) -> str | None:
    caller = await _caller(request)
    return idempotency.job_key(caller.key.id, idempotency.key_of(request))


TheSite = Annotated[Site, Depends(_site)]
TheApp = Annotated[App, Depends(_app)]
TheCaller = Annotated[Caller, Depends(_caller)]
TheAdmin = Annotated[Caller, Depends(_admin)]
#: What makes the job the same if the request comes again.
JobKey = Annotated[str | None, Depends(_job_key)]


# ---- how routes are declared -------------------------------------------------------------------

_bearer = HTTPBearer(
    scheme_name="ApiKey", description="A key made by `headgate api-key new`.", auto_error=False
)


async def _repeatable(
    key: Annotated[
        str | None,
        Header(
            alias=idempotency.HEADER,
            description="The same key again gets the same answer, and does nothing twice.",
            pattern=idempotency.KEY_PATTERN,
        ),
    ] = None,
) -> None:
    """Documents the header; what it does is in `idempotency.py`."""


#: For every POST.
REPEATABLE = Depends(_repeatable)
IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of what you have: 304 where it is the same.")
]

_ALWAYS = ("unauthorized", "too_many_requests", "internal_error", "store_unavailable")
_WRITES = ("malformed_json", "forbidden", "payload_too_large", "unsupported_media_type")
_POSTS = ("request_in_flight", "idempotency_key_reused")


def reads(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The problems of a GET: those of every route, and these."""
    return problems.documented(*_ALWAYS, "forbidden", "invalid_input", *codes)


def writes(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The problems of a PUT or DELETE: those of every such route, and these."""
    return problems.documented(*_ALWAYS, *_WRITES, "invalid_input", *codes)


def posts(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The problems of a POST: those of every POST, and these."""
    return problems.documented(*_ALWAYS, *_WRITES, "invalid_input", *_POSTS, *codes)


def router(prefix: str, tag: str) -> APIRouter:
    """A router whose routes are for those who hold a key."""
    return APIRouter(
        prefix=prefix, tags=[tag], route_class=ApiRoute, dependencies=[Security(_bearer)]
    )
