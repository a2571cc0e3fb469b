"""Showing what a worker process measures, on this machine alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headgate.app import App
from headgate.base.listening import address_of, listening
from headgate.toolkit.commands.http_server import http_server
from headgate.toolkit.commands.loading import CONFIG, fail
from headgate.toolkit.commands.output import messages

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: There is no key to ask for, so nobody else may reach it.
HOST = "127.0.0.1"
PORT_MAX = 65535
STOP_S = 1


def metrics_page(app: App) -> "ASGIApp":
    """The page of what this process measures, or a message that names what is to be installed."""
    try:
        # What serves it is looked for now, not when the worker already works.
        import uvicorn as uvicorn

        from headgate.web.process_metrics import process_page
    except ImportError as error:
        fail(f"--metrics-port: {error.name} is missing: install headgate[web]", code=CONFIG)
    return process_page(app.measurements)


@asynccontextmanager
async def showing(page: "ASGIApp | None", port: int | None) -> AsyncIterator[None]:
    """Serve the page, where there is one, for the length of a block, and say where."""
    if page is None or port is None:
        yield
        return
    with listening(HOST, port) as listener:
        messages.print(f"metrics at {address_of(listener)}/metrics", markup=False, soft_wrap=True)
        async with http_server(page, listener, stop_s=STOP_S):
            yield
