"""Reads the prices of a batch: checks each, and computes what identifies it and what it says.

A price is identified by its run, product, source and time. Two prices say the same if their fields
have equal values, whatever the order of the fields and the way of writing a number. Numbers are
read as they are written, so nothing is rounded.
"""

import json
import re
from datetime import UTC, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from hashlib import blake2b
from typing import Any

import msgspec

from headgate import InvalidInput

ITEMS_MAX = 1_000
ID_LENGTH_MAX = 500
#: Three ids of this size and the user's id fit into an index of Postgres.
ID_BYTES_MAX = 600
#: The most digits of a price before the point, and after it.
DIGITS_MAX = 30
YEARS = range(1971, 2100)

#: At the end of msgspec's message: the place of the wrong value.
_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED = re.compile(r"field `([^`]*)`")
#: Rounds nothing.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_encoder = msgspec.json.Encoder(order="deterministic", decimal_format="number")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """One price of a product at a source, at a time."""

    run_id: str
    product_id: str
    source_id: str
    scraped_at: datetime
    price: Decimal
    #: The JSON text of the item, exactly as it was sent.
    content: str
    #: The hash of what it says: equal content has an equal hash.
    hash: str

    @property
    def identity(self) -> tuple[str, str, datetime, str]:
        """What identifies it among the prices of its user."""
        return (self.product_id, self.source_id, self.scraped_at, self.run_id)


class PriceBatch(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a request: items, of which each is checked by itself."""

    normalized: list[msgspec.Raw]
    #: The run of those items that name none.
    run_id: str | None = None


class _Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that an item must have; other fields are kept and not checked."""

    run_id: str
    product_id: str | int
    source_id: str | int
    scraped_at: datetime
    price: float


def read_batch(body: bytes) -> PriceBatch:
    """Read the body of a request; InvalidInput names the wrong field."""
    try:
        batch = msgspec.json.decode(body or b"{}", type=PriceBatch)
    except msgspec.DecodeError as error:
        raise _invalid(error, "body") from None
    if not 1 <= len(batch.normalized) <= ITEMS_MAX:
        raise InvalidInput("normalized", f"must have 1 to {ITEMS_MAX:,} items")
    return batch


def read_price(item: msgspec.Raw, run_id: str | None) -> Price:
    """Read an item as a price; InvalidInput names the wrong field.

    An item without a run id belongs to the run of its batch.
    """
    content = bytes(item).decode()
    fields = _read_fields(content)
    if run_id is not None:
        fields = {"runId": run_id, **fields}
    try:
        given = msgspec.convert(fields, _Given)
    except msgspec.ValidationError as error:
        raise _invalid(error, "item") from None
    return Price(
        run_id=_check_id("runId", given.run_id),
        product_id=_check_id("productId", str(given.product_id)),
        source_id=_check_id("sourceId", str(given.source_id)),
        scraped_at=_check_time(given.scraped_at),
        price=_check_price(fields["price"]),
        content=content,
        hash=blake2b(_encoder.encode(fields), digest_size=16).hexdigest(),
    )


def _read_fields(content: str) -> dict[str, Any]:
    """Read the fields of an item, with every number as it is written."""
    try:
        fields = json.loads(content, parse_float=_read_number)
    except InvalidOperation:
        raise InvalidInput("item", "a number has too large an exponent") from None
    if not isinstance(fields, dict):
        raise InvalidInput("item", "must be an object")
    return fields


def _read_number(text: str) -> int | Decimal:
    """Read a number with a point or an exponent; equal numbers are equal values: 1.50 is 1.5."""
    number = _EXACT.normalize(Decimal(text))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "JSON has no NaN and no infinity"
    return int(number) if 0 <= exponent and number.adjusted() < DIGITS_MAX else number


def _check_id(field: str, text: str) -> str:
    if not 1 <= len(text) <= ID_LENGTH_MAX or len(text.encode()) > ID_BYTES_MAX:
        raise InvalidInput(
            field, f"must have 1 to {ID_LENGTH_MAX} characters, and at most {ID_BYTES_MAX} bytes"
        )
    return text


def _check_time(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise InvalidInput("scrapedAt", "needs a time zone, such as 2026-01-01T00:00:00Z")
    if time.year not in YEARS:
        raise InvalidInput("scrapedAt", f"must be after 1970 and before {YEARS.stop}")
    return time.astimezone(UTC)


def _check_price(number: int | Decimal) -> Decimal:
    price = Decimal(number)
    if price < 0:
        raise InvalidInput("price", "must not be negative")
    exponent = price.as_tuple().exponent
    assert isinstance(exponent, int), "JSON has no NaN and no infinity"
    if price.adjusted() >= DIGITS_MAX or -exponent > DIGITS_MAX:
        raise InvalidInput(
            "price", f"may have {DIGITS_MAX} digits before the point and {DIGITS_MAX} after it"
        )
    # Written without an exponent or a sign, so that it is the same text from both databases.
    return Decimal(f"{price.copy_abs():f}")


def _invalid(error: msgspec.DecodeError, default: str) -> InvalidInput:
    """Name the field that msgspec's message is about."""
    text = str(error)
    named = _AT.search(text) or _NAMED.search(text)
    return InvalidInput(named[1] if named and named[1] else default, _AT.sub("", text))
