"""The API's documents about prices: the batch, the response to it, and what is listed."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate import JsonObject
from headgate.systems.price_history.prices import ITEMS_MAX
from headgate.systems.price_history.receiving import BatchResult
from headgate.toolkit.api import model_of, page_model

_ITEM: dict[str, Any] = {
    "productId": "p-1",
    "sourceId": "shop-1",
    "scrapedAt": "2026-01-01T12:00:00Z",
    "price": 9.99,
    "currency": "EUR",
}
_BATCH: dict[str, Any] = {"runId": "run-1", "normalized": [_ITEM]}
_RESULT: dict[str, Any] = {
    "accepted": 1,
    "errors": [{"index": 1, "field": "price", "message": "must not be negative"}],
}
_PRICE: dict[str, Any] = {
    "runId": "run-1",
    "productId": "p-1",
    "sourceId": "shop-1",
    "scrapedAt": "2026-01-01T12:00:00Z",
    "price": "9.99",
    "receivedAt": "2026-01-01T12:00:03.141592Z",
    "content": _ITEM,
}

#: The body of the request in the API's description. It is read from its bytes, to keep the numbers
#: as they are written. An item is described by words alone: a wrong one is no wrong request.
BATCH_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "title": "PriceBatch",
                "type": "object",
                "required": ["normalized"],
                "properties": {
                    "normalized": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": ITEMS_MAX,
                        "items": {},
                        "description": "The prices: objects with `runId` (or that of the batch), "
                        "`productId`, `sourceId`, `scrapedAt` (with a time zone), `price` (a "
                        "number, not negative) and any other fields, such as `currency`, which are "
                        "kept. Each is checked by itself: a wrong one is told in `errors`.",
                    },
                    "runId": {
                        "type": ["string", "null"],
                        "description": "The run of those items that name none.",
                    },
                },
            },
            "examples": {"PriceBatch": {"value": _BATCH}},
        }
    },
}
BatchResultModel = model_of(BatchResult, _RESULT)


class PriceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A price that was received."""

    runId: str
    productId: str
    sourceId: str
    scrapedAt: Annotated[datetime, Meta(description="In UTC.")]
    price: Annotated[str, Meta(description="The exact number, as a decimal text.")]
    receivedAt: datetime
    content: Annotated[JsonObject, Meta(description="The item, exactly as it was sent.")]


PricePageModel = page_model(
    "PricePage",
    "Prices in the order of product, source, time and run.",
    model_of(PriceDocument, _PRICE),
    _PRICE,
)
