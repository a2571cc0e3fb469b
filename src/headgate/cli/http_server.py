"""Serving HTTP inside an event loop that also does other things, and that handles its signals."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@asynccontextmanager
async def http_server(web: "ASGIApp", listener: socket, *, stop_s: int) -> AsyncIterator[None]:
    """Serve for the length of a block; requests under way at its end have `stop_s` to finish."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Else a signal would end the process before the workers have let go of their jobs.
            yield

    server = Server(
        uvicorn.Config(
            web,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=stop_s,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]), name="serve")
    try:
        yield
    finally:
        server.should_exit = True
        await task


async def asked_to_stop() -> None:
    """Wait for SIGTERM or SIGINT."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
