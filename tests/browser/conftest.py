"""A real headless Chromium, one for the run; each test gets windows of its own in it."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from headgate.base.clock import ManualClock
from tests import run_servers
from tests.browser import chromium
from tests.browser.rig import PHONE, Rig, Watched, rig
from tests.web.pages.imports import syncs

#: Opens a window; what it takes is what Playwright's `new_context` takes.
OpenPage = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser."""
    async with chromium.connected(run_servers.address_of("chromium")) as opened:
        yield opened


@pytest.fixture
def watched() -> Watched:
    """What the test's windows did that they should not."""
    return Watched()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, watched: Watched) -> AsyncIterator[OpenPage]:
    """Opens windows as small as a phone, which may call nobody but this machine."""
    contexts = []

    async def open_one(**options: Any) -> Page:
        context = await browser.new_context(**{"viewport": PHONE, **options})
        contexts.append(context)
        await watched.watch(context)
        return await context.new_page()

    yield open_one
    for context in contexts:
        await context.close()
    assert watched.strangers == []


@pytest.fixture
def file(store_file: Path, tmp_path: Path) -> Path:
    """An empty database."""
    return Path(shutil.copyfile(store_file, tmp_path / "headgate.db"))


@pytest_asyncio.fixture(loop_scope="session")
async def served(file: Path, clock: ManualClock) -> AsyncIterator[Rig]:
    """The pages of the import from Fitbit to Strava, at a time that stands still."""
    async with rig(file, clock, lambda url: syncs()) as made:
        yield made
