"""Items, which are fetched one by one, and their changes, as values.

Each transition has one constructor. It takes the item as it was read and returns an `ItemChange`
with the row as it should become. The store writes the change only if the row still has the same
state and token; otherwise another writer won the race, and nothing is written.

An item has three counters, each with its own limit: failures, deferrals and lost workers. They are
separate because a deploy or a busy provider is not a failure of the item.
"""

import re
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import Json, JsonObject, to_json
from headgate.base.errors import IllegalTransition, Malformed
from headgate.model.job import Lane
from headgate.model.lease import AT_ONCE, Change, LeasedType, LockedRow, make_change
from headgate.model.states import ITEM, Edge, ItemEdge, ItemState

JSON = "application/json"
#: Attributes are read whenever documents are listed, so large values belong in the body.
ATTRIBUTES_BYTES_MAX = 4096
MEDIA_TYPE_LENGTH_MAX = 100
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(;[ -~]*)?")


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One item as it is stored. Fields are named as the columns."""

    id: str
    #: The collection's name, such as "strava.streams".
    collection: str
    user_id: str
    connection_id: str
    #: The provider's id; without one the item cannot be fetched.
    external_id: str | None
    #: Hot items are fetched first, because somebody asked for them.
    lane: Lane
    #: Within a lane, items are fetched in the order of this time.
    start_time: datetime
    state: ItemState
    #: Failed fetches.
    retry_count: int = 0
    #: How often the provider deferred the fetch.
    deferrals: int = 0
    #: Workers lost while they had the item claimed.
    crashes: int = 0
    #: When the item may be claimed; None: nothing happens by itself.
    next_attempt_at: datetime | None = None
    deferred_until: datetime | None = None
    attempted_at: datetime | None = None
    #: When the provider last refused the item by its rate limit (429).
    limited_at: datetime | None = None
    error: str | None = None
    token: int = 0
    lease_until: datetime | None = None
    worker: str | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def stuck(self) -> bool:
        """Whether the item failed for good: only a reset makes it pending again."""
        return self.state is ItemState.FAILED and self.next_attempt_at is None


# ---- documents ---------------------------------------------------------------------------------


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The document that was fetched for one item; it is stored whole and served unchanged."""

    #: The media type as in HTTP: "application/json".
    media_type: str
    body: bytes
    #: Facts that are useful without opening the body: a small JSON object.
    attributes: JsonObject = {}

    def __post_init__(self) -> None:
        """Raise Malformed if the document cannot be stored or served."""
        known = _MEDIA_TYPE.fullmatch(self.media_type)
        if known is None or len(self.media_type) > MEDIA_TYPE_LENGTH_MAX:
            raise Malformed(f"media_type: {self.media_type!r} is not a media type such as {JSON!r}")
        try:
            text = to_json(self.attributes).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise Malformed(f"attributes: cannot be written as JSON: {error}") from None
        if not text.startswith(b"{"):
            raise Malformed("attributes: must be a JSON object")
        if len(text) > ATTRIBUTES_BYTES_MAX:
            raise Malformed(
                f"attributes: {len(text):,} bytes of JSON are more than {ATTRIBUTES_BYTES_MAX:,}; "
                "put large values into the body"
            )

    @staticmethod
    def of_json(data: Json, attributes: JsonObject | None = None) -> "Document":
        """A document with `data` as JSON; equal data gives equal bytes."""
        return Document(media_type=JSON, body=to_json(data).encode(), attributes=attributes or {})


# ---- changes -----------------------------------------------------------------------------------


class ItemChange(Change[Item], frozen=True, gc=False, kw_only=True):
    """One transition of one item, not yet applied."""

    edge: Edge[ItemEdge, ItemState]
    #: Whether the provider has just refused the item by its rate limit.
    limited: bool = False


def _fill(change: ItemChange, locked: LockedRow) -> dict[str, Any]:
    deferred = change.edge.target is ItemState.DEFERRED
    return {
        "deferred_until": locked.now + (change.wake or AT_ONCE) if deferred else None,
        "limited_at": locked.now if change.limited else change.after.limited_at,
    }


ITEMS = LeasedType(
    machine=ITEM,
    row=Item,
    locked=LockedRow,
    wake="next_attempt_at",
    always=("deferred_until", "limited_at"),
    if_changed=("external_id", "retry_count", "deferrals", "crashes", "error"),
    fill=_fill,
)


def _change(item: Item, edge: ItemEdge, becomes: Item, **fields: Any) -> ItemChange:
    return make_change(ItemChange, ITEM, item, edge, becomes, **fields)


# Made by the worker that has claimed the item.


def succeed(item: Item) -> ItemChange:
    """The item was fetched; its document is stored with the change."""
    return _change(item, ItemEdge.SUCCEED, replace(item, error=None))


def fail(item: Item, *, error: str, after: timedelta | None) -> ItemChange:
    """The fetch failed and is tried again after a while; with `after` None, never."""
    becomes = replace(item, error=error, retry_count=item.retry_count + 1)
    return _change(item, ItemEdge.FAIL, becomes, wake=after)


def defer(
    item: Item, *, after: timedelta, error: str, limited: bool = False, counts: bool = True
) -> ItemChange:
    """The fetch has to wait, and does not count as a try.

    `counts` is False where our own budget caused the wait: then it is no deferral either.
    """
    becomes = replace(item, error=error, deferrals=item.deferrals + counts)
    return _change(item, ItemEdge.DEFER, becomes, wake=after, limited=limited)


def give_up(item: Item, *, error: str, limited: bool = False) -> ItemChange:
    """The provider has deferred the fetch too often: the item fails for good."""
    deferrals = item.deferrals + 1
    becomes = replace(item, error=f"deferred {deferrals} times: {error}", deferrals=deferrals)
    return _change(item, ItemEdge.FAIL, becomes, limited=limited)


def find_nothing(item: Item, *, reason: str) -> ItemChange:
    """The provider has nothing to fetch for the item."""
    return _change(item, ItemEdge.FIND_NOTHING, replace(item, error=reason))


def release(item: Item) -> ItemChange:
    """The worker did not try the item and releases it for any worker."""
    return _change(item, ItemEdge.RELEASE, item, wake=AT_ONCE, fences=True)


# Made by the rescuer.


def rescue(item: Item, *, after: timedelta, counts: bool = True) -> ItemChange:
    """The lease has expired, so the worker is lost. It counts as a crash, not as a failure."""
    becomes = replace(item, crashes=item.crashes + counts)
    seen = item.lease_until
    return _change(item, ItemEdge.RESCUE, becomes, wake=after, lease_seen=seen, fences=True)


def abandon(item: Item, *, error: str) -> ItemChange:
    """The item has lost too many workers and fails for good."""
    becomes = replace(item, crashes=item.crashes + 1, error=error)
    return _change(item, ItemEdge.FAIL, becomes, lease_seen=item.lease_until, fences=True)


# Made by people, and when an item is registered again.


def appear(item: Item, external_id: str) -> ItemChange:
    """The provider's id of the item has become known, so the item can be fetched."""
    if item.external_id is not None:
        raise IllegalTransition(f"the item {item.id!r} already has an id at the provider")
    becomes = replace(item, external_id=external_id, error=None)
    return _change(item, ItemEdge.APPEAR, becomes, wake=AT_ONCE, fences=True)


def reset(item: Item, *, after: timedelta = AT_ONCE) -> ItemChange:
    """Start again with all counters at zero, at once or later; a worker's claim on it ends."""
    if item.external_id is None:
        raise IllegalTransition(f"the item {item.id!r} has no id at the provider: nothing to fetch")
    becomes = replace(item, retry_count=0, deferrals=0, crashes=0, error=None)
    return _change(item, ItemEdge.RESET, becomes, wake=after, fences=True)
