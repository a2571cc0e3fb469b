"""A shop, a scraper and a backend in one process: each has its own database."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from headgate import App, Clock, JobState, Secret, SystemClock, Target, WorkerSettings
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.connectors.keys import KeyRing
from headgate.model.api_key import Role
from headgate.sandbox.shop.sandbox import Shop
from headgate.systems.price_history import system
from headgate.systems.price_history.settings import PriceHistorySettings
from headgate.web.server import build
from tests.connecting import Wire

SHOP, BACKEND = "https://shop.test", "https://backend.test"
SITE = "shop"


class Scraping:
    """A scraper, and the backend that it delivers to."""

    def __init__(self, app: App, backend: App, shop: Shop, wire: Wire) -> None:
        self.app = app
        self.backend = backend
        self.shop = shop
        self.wire = wire

    async def scrape(self) -> str:
        """Scrape the shop once; the id of the run."""
        submitted = await self.app.jobs.submit("price-history", user_id="ops", connection_id=SITE)
        supervisor = self.app.supervisor()
        await supervisor.start()
        try:
            while not (job := await self.app.jobs.get(submitted.job.id)).state in (
                JobState.SUCCESS,
                JobState.FAILED,
            ):
                await self.app.clock.sleep(0.02)
        finally:
            await supervisor.stop()
        assert job.state is JobState.SUCCESS, job.error
        return job.id
