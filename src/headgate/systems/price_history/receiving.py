"""What is done with a batch of prices: each is stored once, and each error is told by its item."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, Row

from headgate import App, Conflict, InvalidInput
from headgate.systems.price_history import tables
from headgate.systems.price_history.prices import Price, PriceBatch, read_price

#: The most prices read at once for an export.
_PAGE_MAX = 500


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch was not accepted."""

    index: Annotated[int, Meta(description="The place of the item in the batch, from 0.")]
    field: Annotated[str, Meta(description="The wrong field, or `item`.")]
    message: str


class BatchResult(msgspec.Struct, frozen=True):
    """How many items of a batch were accepted, and why others were not."""

    accepted: Annotated[
        int, Meta(description="Those that were there with the same content are counted too.")
    ]
    errors: Annotated[list[ItemError], Meta(description="Of the others, in their order.")]


async def receive(app: App, user_id: str, batch: PriceBatch) -> BatchResult:
    """Store the prices of a batch for a user; safe to repeat.

    Raises Conflict if the user's prices are erased at the same time.
    """
    found: dict[int, Price] = {}
    errors: list[ItemError] = []
    for index, item in enumerate(batch.normalized):
        try:
            found[index] = read_price(item, batch.run_id)
        except InvalidInput as error:
            errors.append(ItemError(index, error.field, error.problem))
    errors += await _store(app, user_id, found)
    errors.sort(key=lambda each: each.index)
    return BatchResult(accepted=len(batch.normalized) - len(errors), errors=errors)


async def _store(app: App, user_id: str, found: dict[int, Price]) -> list[ItemError]:
    if not found:
        return []
    prices, now = list(found.values()), app.clock.now()
    stored = await app.write(lambda tx: tables.store(tx, user_id, prices, now))
    if None in stored:
        raise Conflict("the user's prices are being erased")
    return [
        ItemError(index, "item", "conflict: it was accepted before with other content")
        for (index, price), digest in zip(found.items(), stored, strict=True)
        if digest != price.hash
    ]


async def erase(app: App, user_id: str) -> None:
    """Delete all prices of a user; safe to repeat."""
    while await app.write(lambda tx: tables.erase_some(tx, user_id)):
        pass


async def export(app: App, user_id: str) -> AsyncIterator[dict[str, Any]]:
    """Return all prices of a user, in the order of product, source, time and run."""
    after = None
    while True:
        page = await app.read(partial(_page_of, user_id=user_id, after=after))
        for row in page:
            yield {"type": "price", **msgspec.to_builtins(dict(row._mapping))}
        if len(page) < _PAGE_MAX:
            return
        last = page[-1]
        after = (last.product_id, last.source_id, last.scraped_at, last.run_id)


def _page_of(
    tx: Connection, *, user_id: str, after: tuple[str, str, datetime, str] | None
) -> Sequence[Row[Any]]:
    return tables.list_prices(
        tx, user_id, product_id=None, source_id=None, after=after, limit=_PAGE_MAX
    )
