"""Serves HTTP inside an event loop that also runs workers and handles the signals itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from socket import socket
from typing import TYPE_CHECKING

from headgate.app import App
from headgate.base.listening import ConnectionLimits
from headgate.secrets.keys import KeyRing
from headgate.toolkit.commands.loading import CONFIG, fail
from headgate.toolkit.serving.connection_limits import LimitedConnections
from headgate.toolkit.serving.stoppable_site import StoppableSite

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

DEFAULT_LIMITS = ConnectionLimits()


def build_site(app: App, keys: KeyRing, public_url: str) -> "FastAPI":
    """Build the application's whole site; links are signed with `keys`.

    `headgate.web` is in a higher layer than this module, so it is imported by name when called.
    """
    try:
        server = import_module("headgate.web.server")
    except ImportError as error:
        fail(f"{error.name} is missing: install headgate[web]", code=CONFIG)
    site: FastAPI = server.build(app, keys=keys, public_url=public_url)
    return site


@asynccontextmanager
async def serve_http(
    web: "ASGIApp", listener: socket, *, stop_s: int, limits: ConnectionLimits = DEFAULT_LIMITS
) -> AsyncIterator[None]:
    """Serve for the length of a block; requests that run at its end get `stop_s` to finish.

    Responses without an end of their own are told of the end: see
    `toolkit/serving/stoppable_site.py`.
    """
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Else a signal would end the process before the workers have released their jobs.
            yield

    stopping = asyncio.Event()
    server = Server(
        uvicorn.Config(
            StoppableSite(web, stopping),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=stop_s,
            timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]  # given to `call_later`
            http=LimitedConnections(AutoHTTPProtocol, limits),  # type: ignore[arg-type]  # called
            ws="none",
            # Who the client is behind a proxy, `toolkit/serving/proxies.py` finds out.
            proxy_headers=False,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]), name="serve")
    try:
        yield
    finally:
        stopping.set()
        server.should_exit = True
        await task
