"""The pages on a real server, beside the test that drives the jobs they show.

The server runs in a thread of its own, with an application of its own on the same SQLite file, as
another process would.
"""

import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Route, ViewportSize

from headgate import App, Sync
from headgate.base.clock import Clock, ManualClock
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from headgate.signals.local import LocalSignal
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.web.server import build
from tests.web.pages.imports import USER

HOST = "127.0.0.1"
KEYS = KeyRing.for_demo()
STOP_S = 10.0
#: A phone of the smaller kind, and a window on a desk.
PHONE = ViewportSize(width=360, height=740)
DESK = ViewportSize(width=1200, height=900)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("dark", "light")


def application(file: Path, clock: Clock, syncs: list[Sync], **parts: Any) -> App:
    """An application on that file, not yet open."""
    # A watch on the file for others' changes would make a clock run that is to stand still.
    signal = LocalSignal() if isinstance(clock, ManualClock) else None
    return App(SqliteDatabase(file, clock), syncs=syncs, clock=clock, signal=signal, **parts)


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    """A socket on a free port of this machine, and its address."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener, f"http://{HOST}:{listener.getsockname()[1]}"


@contextmanager
def serving(listener: socket.socket, app: App, url: str) -> Iterator[None]:
    """Serve the site of `app`, which is opened and closed with the server."""

    @asynccontextmanager
    async def opened(server: FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    web = FastAPI(openapi_url=None, lifespan=opened)
    web.mount("/", build(app, keys=KEYS, public_url=url))
    config = uvicorn.Config(web, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    # The socket listens already, so a browser that is faster than the thread just waits.
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(STOP_S)


class Rig:
    """A server at `url`, and an application to drive what it shows."""

    def __init__(self, app: App, url: str) -> None:
        self.app = app
        self.links = Links(KEYS, app.clock)
        self.url = url

    def page_of(self, job_id: str, *, user_id: str = USER, **more: Any) -> str:
        """The address of a job's page."""
        return self.url + self.links.progress_path(job_id=job_id, user_id=user_id, **more)


@asynccontextmanager
async def rig(
    file: Path, clock: Clock, syncs: Callable[[str], list[Sync]], **parts: Any
) -> AsyncIterator[Rig]:
    """Serve the pages of these syncs, which are told where they are served."""
    with listening() as (listener, url):
        served = application(file, clock, syncs(url), **parts)
        async with application(file, clock, syncs(url), **parts) as app:
            with serving(listener, served, url):
                yield Rig(app, url)


class Watched:
    """What a browser did that it should not: calls to others, and complaints on the console."""

    def __init__(self) -> None:
        self.strangers: list[str] = []
        self.complaints: list[str] = []

    async def watch(self, context: BrowserContext) -> None:
        """Let nothing out but to this machine, and note what is said."""
        await context.route(lambda url: not _is_here(url), self._stop)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    async def _stop(self, route: Route) -> None:
        self.strangers.append(route.request.url)
        await route.abort()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


def _is_here(url: str) -> bool:
    return url.startswith((f"http://{HOST}:", "data:", "about:"))


async def picture(page: Page, name: str) -> None:
    """Keep what the page looks like, where HEADGATE_SCREENSHOTS names a folder."""
    folder = os.environ.get("HEADGATE_SCREENSHOTS")
    if folder:
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def pictures(page: Page, name: str) -> None:
    """The same in both sizes and schemes."""
    if os.environ.get("HEADGATE_SCREENSHOTS"):
        for size, viewport in (("desk", DESK), ("phone", PHONE)):
            await page.set_viewport_size(viewport)
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme)
                await picture(page, f"{name}-{size}-{scheme}")
