"""A price history sandbox on a clock that stands still, and batches to send to it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headgate.base.clock import ManualClock
from headgate_sandbox.price_history.sandbox import BATCH, PriceHistory
from tests.sandbox.clients import Answer, Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)


def make(**options: Any) -> tuple[PriceHistory, Client, ManualClock]:
    clock = ManualClock(START)
    sandbox = PriceHistory(clock, **options)
    return sandbox, Client(sandbox), clock


def snapshot(product: object, **change: object) -> dict[str, object]:
    return {
        "productId": product,
        "sourceId": "shop-1",
        "price": 9.99,
        "currency": "EUR",
        "scrapedAt": "2026-01-05T10:00:00Z",
        **change,
    }


def batch(*products: object, run: str = "run-1") -> dict[str, object]:
    return {"runId": run, "normalized": [snapshot(product) for product in products]}


async def send(
    sandbox: PriceHistory,
    client: Client,
    body: object,
    *,
    environment: str = "",
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Deliver a batch with the right key for its environment, unless the headers say otherwise."""
    all_headers = {"x-api-key": sandbox.api_key(environment or None), **(headers or {})}
    if key is not None:
        all_headers["idempotency-key"] = key
    path = f"/{environment}{BATCH}" if environment else BATCH
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return await client.send("POST", path, body=raw, headers=all_headers)
