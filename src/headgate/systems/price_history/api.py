"""The API for prices, under /v1/price-history: batches come in, and what arrived can be listed.

Every query names the user, so nobody sees or changes the prices of another.
"""

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from sqlalchemy import Row
from starlette.responses import Response

from headgate import InvalidInput
from headgate.systems.price_history import tables
from headgate.systems.price_history.documents import BATCH_BODY, BatchResultModel, PricePageModel
from headgate.systems.price_history.prices import ID_LENGTH_MAX, read_batch
from headgate.systems.price_history.receiving import receive
from headgate.toolkit.api import (
    IDEMPOTENT,
    Limit,
    Name,
    TheApp,
    TheCaller,
    get_problems,
    json_response,
    large_body,
    post_problems,
    router,
)

#: For a thousand items of four kilobytes.
BATCH_BYTES_MAX = 4 * 1024 * 1024
#: Longer than the cursor of the longest ids.
_CURSOR_LENGTH_MAX = 3_000
#: Microseconds since 1970, up to a year that has four digits.
_MICROSECONDS = re.compile(r"[0-9]{1,17}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_AN_ID: dict[str, Any] = {"min_length": 1, "max_length": ID_LENGTH_MAX, "pattern": r"^[^\x00]+$"}
TheUser = Annotated[Name | None, Query(description="An admin's key has to name one.")]

routes = router("/v1/price-history", "Price history")


@routes.post(
    "/batch",
    operation_id="receive_prices",
    summary="Store a batch of prices",
    status_code=201,
    response_model=BatchResultModel,
    dependencies=[IDEMPOTENT],
    responses=post_problems("conflict"),
    openapi_extra={"requestBody": BATCH_BODY},
)
@large_body(BATCH_BYTES_MAX)
async def receive_prices(
    request: Request, app: TheApp, caller: TheCaller, user_id: TheUser = None
) -> Response:
    """Stores each price once, by its run, product, source and time; safe to repeat.

    A price that is there with the same content is accepted and changes nothing. One that is there
    with other content, or that is not valid, is told in `errors`; the others are stored.
    """
    owner = _sender(caller, user_id)
    batch = read_batch(await request.body())
    result = await receive(app, owner, batch)
    # One with errors is not kept for the idempotency key: what is corrected may be sent again under
    # it, and what was accepted is known by itself.
    headers = {"Cache-Control": "no-store"} if result.errors else None
    return json_response(result, status=201, headers=headers)


def _sender(caller: TheCaller, named: str | None) -> str:
    """Return the user whose batch it is; a key without a user has to name one.

    If it does not, that is a 403 and no 422: nothing is wrong with the batch, and a sender gives up
    a batch after a 422, while a wrong key makes it wait for a right one.
    """
    if caller.owner is None and named is None:
        raise caller.deny("this key belongs to no user: use a user's key, or name the user_id")
    return caller.require_user(named)


@routes.get(
    "/prices",
    operation_id="list_prices",
    summary="List the prices that were received",
    response_model=PricePageModel,
    responses=get_problems(),
)
async def list_prices(
    app: TheApp,
    caller: TheCaller,
    product_id: Annotated[
        str | None, Query(alias="productId", **_AN_ID, description="Of this product.")
    ] = None,
    source_id: Annotated[
        str | None, Query(alias="sourceId", **_AN_ID, description="Of this source.")
    ] = None,
    user_id: TheUser = None,
    limit: Limit = 50,
    after: Annotated[
        str | None,
        Query(max_length=_CURSOR_LENGTH_MAX, description="`next_cursor` of the page before."),
    ] = None,
) -> Response:
    """Lists them in the order of product, source, time and run."""
    owner, begin = caller.require_user(user_id), _read_cursor(after)
    found = await app.read(
        lambda tx: tables.list_prices(
            tx, owner, product_id=product_id, source_id=source_id, after=begin, limit=limit + 1
        )
    )
    more = _cursor(found[limit - 1]) if len(found) > limit else None
    data = [_to_document(row) for row in found[:limit]]
    return json_response({"data": data, "next_cursor": more})


def _to_document(row: Row[Any]) -> dict[str, object]:
    return {
        "runId": row.run_id,
        "productId": row.product_id,
        "sourceId": row.source_id,
        "scrapedAt": row.scraped_at,
        "price": f"{row.price:f}",
        "receivedAt": row.received_at,
        # Not read and written again, which would round its numbers.
        "content": msgspec.Raw(row.content.encode()),
    }


def _cursor(row: Row[Any]) -> str:
    """Return the place of a price in the list, as a text for the next request."""
    microseconds = (row.scraped_at - _EPOCH) // _MICROSECOND
    # No id contains NUL.
    parts = "\0".join([row.product_id, row.source_id, str(microseconds), row.run_id])
    return base64.urlsafe_b64encode(parts.encode()).decode().rstrip("=")


def _read_cursor(cursor: str | None) -> tuple[str, str, datetime, str] | None:
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        parts = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        product_id, source_id, microseconds, run_id = parts.split("\0")
    except ValueError:
        raise _no_cursor() from None
    if not _MICROSECONDS.fullmatch(microseconds):
        raise _no_cursor()
    return product_id, source_id, _EPOCH + int(microseconds) * _MICROSECOND, run_id


def _no_cursor() -> InvalidInput:
    return InvalidInput("after", "is not the next_cursor of a page")
