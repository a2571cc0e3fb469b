"""Serves the metrics of a worker process, on this machine only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headgate.app import App
from headgate.base.listening import listener_url, listening
from headgate.toolkit.commands.loading import CONFIG, fail
from headgate.toolkit.commands.output import messages, print_json
from headgate.toolkit.serving.http_server import serve_http

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: The page needs no API key, so only this machine may reach it.
HOST = "127.0.0.1"
PORT_MAX = 65535
STOP_S = 1


def metrics_page(app: App) -> "ASGIApp":
    """Return the metrics page of this process, or end with a message about what to install."""
    try:
        # Fail now if the server is not installed, not when the worker already works.
        import uvicorn as uvicorn

        from headgate.web.process_metrics import process_page
    except ImportError as error:
        fail(f"--metrics-port: {error.name} is missing: install headgate[web]", code=CONFIG)
    return process_page(app.measurements, app.database.find_fault)


@asynccontextmanager
async def serve_metrics(
    page: "ASGIApp | None", port: int | None, *, json: bool = False
) -> AsyncIterator[None]:
    """Serve the page, if there is one, for the length of a block, and print its address."""
    if page is None or port is None:
        yield
        return
    with listening(HOST, port) as listener:
        address = f"{listener_url(listener)}/metrics"
        if json:
            print_json({"metrics": address})
        else:
            messages.print(f"metrics at {address}", markup=False, soft_wrap=True)
        async with serve_http(page, listener, stop_s=STOP_S):
            yield
