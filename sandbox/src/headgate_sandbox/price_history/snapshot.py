"""This module reads a snapshot of a price: it checks the fields, and computes the identity."""

import math
from datetime import UTC, datetime

import msgspec

from headgate.base.encoding import JsonObject, content_hash
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.control import convert

TEXT_CHARS_MAX = 500
YEAR_END = 2_100


class Identity(msgspec.Struct, frozen=True):
    """The unique key of a snapshot: two snapshots with the same key are the same."""

    run_id: str
    product_id: str
    source_id: str
    scraped_at: datetime


class Snapshot(msgspec.Struct, frozen=True):
    """A price that was accepted."""

    identity: Identity
    content: JsonObject
    #: The hash of the content; equal content has an equal hash.
    digest: str


class _Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that an item must have; other fields are kept and not checked."""

    run_id: str
    product_id: str | int
    source_id: str | int
    scraped_at: datetime
    price: float


def read_snapshot(item: object, run_id: str | None) -> Snapshot:
    """Read an item as a snapshot; raises InvalidInput that names the wrong field.

    An item without a run id belongs to the run of its batch.
    """
    if not isinstance(item, dict):
        raise InvalidInput("item", "must be an object")
    content = item if run_id is None else {"runId": run_id, **item}
    given = convert(content, _Given)
    texts = {
        "runId": given.run_id,
        "productId": str(given.product_id),
        "sourceId": str(given.source_id),
    }
    for field, text in texts.items():
        if not 1 <= len(text) <= TEXT_CHARS_MAX:
            raise InvalidInput(field, f"must have 1 to {TEXT_CHARS_MAX} characters")
    if not math.isfinite(given.price) or given.price < 0:
        raise InvalidInput("price", "must not be negative")
    if given.scraped_at.tzinfo is None:
        raise InvalidInput("scrapedAt", "needs a time zone, such as 2026-01-01T00:00:00Z")
    if not 1970 < given.scraped_at.year < YEAR_END:
        raise InvalidInput("scrapedAt", f"must be after 1970 and before {YEAR_END}")
    identity = Identity(
        run_id=texts["runId"],
        product_id=texts["productId"],
        source_id=texts["sourceId"],
        scraped_at=given.scraped_at.astimezone(UTC),
    )
    return Snapshot(identity, content, content_hash(content))
