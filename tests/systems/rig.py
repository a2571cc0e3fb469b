"""Systems on the web with a worker, on either database, and their providers in the same process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from examples.reading_list import system as example
from examples.reading_list.settings import ReadingListSettings
from examples.shelf import Shelf
from headgate import App, Item, ItemState, JobState, System, SystemClock, WorkerSettings
from headgate.secrets.keys import KeyRing
from headgate.testing.asgi_transport import AsgiTransport
from headgate.web.server import build
from tests.connecting import Wire, vault
from tests.web.callers import ORIGIN, Client, Served

SHELF = "https://shelf.test"
ENDED = (JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED)


def reading_list() -> System:
    """The example, as it is configured here."""
    return example.with_settings(ReadingListSettings(shelf_url=SHELF), public_url=ORIGIN)


class Place(Served):
    """Systems that are served and worked on."""

    def __init__(self, app: App, shelf: Shelf, wire: Wire) -> None:
        super().__init__(app, build(app, keys=KeyRing.for_demo(), public_url=ORIGIN))
        self.shelf = shelf
        self.wire = wire

    async def ended(self, job_id: str) -> JobState:
        """How the job ended."""
        while (job := await self.app.jobs.get(job_id)).state not in ENDED:
            await self.app.clock.sleep(0.02)
        return job.state

    async def settled(self, item_id: str) -> Item:
        """The item, once it is known and was tried."""
        while True:
            found = [each for each in await self.app.items.list(limit=200) if each.id == item_id]
            if found and found[0].state not in (ItemState.PENDING, ItemState.FETCHING):
                return found[0]
            await self.app.clock.sleep(0.02)

    async def read_shelf(self, user_id: str) -> None:
        """Import everything on a user's shelf."""
        submitted = await self.app.jobs.submit("reading-list", user_id=user_id)
        assert await self.ended(submitted.job.id) is JobState.SUCCESS

    def browser(self) -> Client:
        """Of somebody without a key."""
        return self.with_headers()


@asynccontextmanager
async def working(
    address: str, *systems: System, providers: Mapping[str, Any] | None = None, articles: int = 12
) -> AsyncIterator[Place]:
    """The systems on the database at that address, with a worker."""
    clock = SystemClock()
    shelf = Shelf(clock, articles=articles)
    wire = Wire(AsgiTransport({SHELF: shelf, **(providers or {})}, clock))
    app = App(
        address, systems=systems, transport=wire, vault=vault(), worker=WorkerSettings(grace_s=1)
    )
    await app.migrate()
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        try:
            yield Place(app, shelf, wire)
        finally:
            await supervisor.stop()
