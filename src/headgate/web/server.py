"""Builds the HTTP server: the API, the pages, and the headers of every response.

Whoever serves it opens the application before, and closes it after.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.app import App
from headgate.base.errors import HeadgateError, StoreFault
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from headgate.toolkit.api import problems
from headgate.toolkit.api.idempotency import IdempotentRequests
from headgate.toolkit.api.limits import FAILURES_PER_MIN, BodyLimit, Limits
from headgate.toolkit.api.route import ApiContext
from headgate.toolkit.api.streams.event_stream import EventStreams
from headgate.toolkit.api.streams.job_watch import JobWatch
from headgate.toolkit.site import Site
from headgate.web import metrics
from headgate.web.api import (
    administration,
    connections,
    description,
    items,
    job_batches,
    jobs,
    records,
    schedules,
    syncs,
    users,
)
from headgate.web.pages.router import pages_router, unknown_path
from headgate.web.systems import add_systems, all_routes

#: A database that takes longer to respond counts as unavailable.
HEALTH_S_MAX = 5.0
#: Default headers of a response. The pages have a policy of their own.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ABOUT = """Durable imports of people's data from rate-limited APIs.

Every request needs an API key, which `headgate api-key new` makes: `Authorization: Bearer hg_…`.
What goes wrong is a problem document (RFC 9457), which says in `next` what to do about it.
"""
_HSTS = {"Strict-Transport-Security": "max-age=31536000"}

_log = get_logger(__name__)


def build(app: App, *, keys: KeyRing, public_url: str = "http://127.0.0.1:8080") -> FastAPI:
    """Build the site of `app`, which users reach at `public_url`; `keys` sign the links."""
    public_url = public_url.rstrip("/")
    site = Site(app=app, links=Links(keys, app.clock), public_url=public_url)
    # Not the framework's own /docs and /redoc, which load scripts from other sites.
    web = FastAPI(
        title="Headgate",
        version="1",
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    web.state.api = ApiContext(
        site=site,
        keys=app.api_keys,
        limits=Limits(app.clock),
        anonymous=Limits(app.clock, per_min=FAILURES_PER_MIN),
        idempotent=IdempotentRequests(app.idempotency),
        streams=EventStreams(app.clock),
        watch=JobWatch(app.jobs, app.clock),
    )
    own = (
        job_batches,
        jobs,
        syncs,
        records,
        connections,
        items,
        schedules,
        users,
        administration,
        metrics,
    )
    for each in own:
        web.include_router(each.routes)
    web.include_router(pages_router(site))
    add_systems(web, site)
    description.install(web, public_url)
    web.add_api_route("/healthz", _health(app), include_in_schema=False)
    routes = all_routes(web)
    problems.install_handlers(web, routes)
    web.add_exception_handler(404, unknown_path(site))
    https = public_url.startswith("https://")
    web.add_middleware(BodyLimit, routes=routes)
    web.add_middleware(SecurityMiddleware, headers={**_HEADERS, **(_HSTS if https else {})})
    return web


def _health(app: App) -> Callable[[], Awaitable[Response]]:
    async def healthz() -> Response:
        """Say whether requests can be served, and nothing else: it needs no API key."""
        try:
            async with asyncio.timeout(HEALTH_S_MAX):
                await app.ping()
        except (HeadgateError, TimeoutError) as error:
            _log.error(LogEvent.NOT_HEALTHY, error=describe_error(error))
            # A fault of the disk is told by its kind, which gives nothing away.
            why = f": {error.sentence}" if isinstance(error, StoreFault) else ""
            return PlainTextResponse(f"unavailable{why}", status_code=503)
        return PlainTextResponse("ok")

    return healthz


class SecurityMiddleware:
    """Adds security headers to every response, and turns every failure into a response."""

    def __init__(self, app: ASGIApp, *, headers: Mapping[str, str]) -> None:
        """Wrap `app`; headers that a response sets itself are kept."""
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and complete its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_secured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_secured)
        except Exception as error:
            if started:
                raise
            response = problems.problem_response(Request(scope), error)
            await response(scope, receive, send_secured)
