"""A shop, a scraper and a backend in one process, each with a database of its own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import text

from headgate import App, JobState, SystemClock, Target, Transient, WorkerSettings
from headgate.model.api_key import Role
from headgate.ports.transport import Request
from headgate.systems.price_history import system
from headgate.systems.price_history.settings import PriceHistorySettings
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Job
from headgate_sandbox.shop.sandbox import Shop
from tests.connecting import Wire
from tests.systems.price_history.receivers import Receiver, receiving

SHOP, BACKEND = "https://shop.test", "https://backend.test"
SITE = "shop"


class Stage:
    """A scraper, and the backend that it delivers to."""

    def __init__(self, app: App, receiver: Receiver, shop: Shop, wire: Wire) -> None:
        self.app = app
        self.receiver = receiver
        self.shop = shop
        self._wire = wire

    def stop_backend(self) -> None:
        """Let nobody listen there."""

        def refuse(request: Request) -> None:
            if request.url.startswith(BACKEND):
                raise Transient("connection refused")

        self._wire.before = refuse

    def start_backend(self) -> None:
        """Let it answer again."""
        self._wire.before = lambda request: None

    @property
    def target(self) -> Target:
        """The backend, as the scraper knows it."""
        return self.app.outbox.targets.get("default")

    async def scrape(self) -> str:
        """Scrape the shop once; the id of the run."""
        job = await self.run()
        assert job.state is JobState.SUCCESS, job.error
        return job.id

    async def run(self) -> Job:
        """Work until a new run has ended."""
        submitted = await self.app.jobs.submit("price-history", user_id="ops")
        supervisor = self.app.supervisor()
        await supervisor.start()
        try:
            while (job := await self.app.jobs.get(submitted.job.id)).finished_at is None:
                await self.app.clock.sleep(0.02)
        finally:
            await supervisor.stop()
        return job

    async def queue(self) -> Sequence[Any]:
        """The rows of the queue, as scrapers know it."""
        query = text("SELECT * FROM price_history_sync_queue ORDER BY created_at, payload_json")
        return await self.app.read(lambda tx: tx.execute(query).mappings().all())


@asynccontextmanager
async def staged(
    address: str, backend: str, *, products: int = 45, role: Role = Role.USER
) -> AsyncIterator[Stage]:
    """A scraper on the database at `address`, with a backend on its own and a key of that role."""
    clock = SystemClock()
    shop = Shop(clock, products=products)
    async with receiving(backend) as receiver:
        wire = Wire(AsgiTransport({SHOP: shop, BACKEND: receiver.web}, clock))
        settings = PriceHistorySettings.model_validate(
            {
                "shop_url": SHOP,
                "SYNC_API_URL": BACKEND,
                "SYNC_API_KEY": await receiver.token(role, "ops"),
            }
        )
        app = App(
            address,
            systems=[system.with_settings(settings)],
            transport=wire,
            worker=WorkerSettings(grace_s=1),
        )
        await app.migrate()
        async with app:
            yield Stage(app, receiver, shop, wire)
