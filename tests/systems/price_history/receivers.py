"""Servers that receive prices, on either database, and batches to send to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import func, select

from headgate import App
from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.systems.price_history import system, tables
from headgate.web.server import build
from tests.web.callers import Client, Served

BATCH = "/v1/price-history/batch"
PRICES = "/v1/price-history/prices"


class Receiver(Served):
    """A server that receives prices."""

    def __init__(self, app: App) -> None:
        super().__init__(app, build(app, keys=KeyRing.for_demo()))

    async def scraper(self, user_id: str = "ada", role: Role = Role.USER) -> Client:
        """A client that holds a new key of that user, and sends it as scrapers do."""
        return self.with_headers({"x-api-key": await self.token(role, user_id)})

    async def count(self) -> int:
        """How many prices are stored, of all users."""
        query = select(func.count()).select_from(tables.prices)
        return await self.app.read(lambda tx: int(tx.execute(query).scalar_one()))


@asynccontextmanager
async def receiving(address: str) -> AsyncIterator[Receiver]:
    """A server on the database at that address."""
    app = App(address, systems=[system.with_syncs(())])
    await app.migrate()
    async with app:
        yield Receiver(app)


def item(product: object = "p-1", **change: object) -> dict[str, Any]:
    """A price, as a scraper sends it."""
    return {
        "productId": product,
        "sourceId": "shop-1",
        "scrapedAt": "2026-01-05T10:00:00Z",
        "price": 9.99,
        "currency": "EUR",
        **change,
    }


def batch(*items: Any, **change: object) -> dict[str, Any]:
    """A batch of a run."""
    return {"runId": "run-1", "normalized": list(items), **change}


async def listed(client: Client, **asked: Any) -> list[dict[str, Any]]:
    """All prices that the client may see, page by page."""
    found: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        answer = await client.get(PRICES, params={**asked, **after})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if page["next_cursor"] is None:
            return found
        after = {"after": page["next_cursor"]}
