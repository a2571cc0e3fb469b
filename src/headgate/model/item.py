"""An item: a thing fetched one by one, with its own life; and the changes of it, as values.

One constructor per transition takes the item as it was read and returns an `ItemChange` that holds
the row as it should become. The store writes it only where the row still has that state and that
token; where it has not, the race was lost, and nothing is written.

An item has three counters, each with a limit of its own: failures, deferrals and lost workers. A
worker that is deployed anew, or a provider that is busy, is not the item's fault.
"""

import re
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from headgate.base.encoding import Json, JsonObject, to_json
from headgate.base.errors import IllegalTransition, Malformed
from headgate.model.job import Lane
from headgate.model.lease import NOW, Change, LeasedType, LockedRow
from headgate.model.states import ITEM, Edge, ItemEdge, ItemState

#: What is told of an item whose workers were lost too often.
LOST = "fetching_timeout_cleanup"

JSON = "application/json"
#: Attributes are read wherever a document is looked for: what is large belongs into its body.
ATTRIBUTES_BYTES_MAX = 4096
MEDIA_TYPE_LENGTH_MAX = 100
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(;[ -~]*)?")


class Item(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One thing to fetch, as its row says."""

    id: str
    #: What kind of thing it is: "strava.streams".
    collection: str
    user_id: str
    connection_id: str
    #: The provider's id of it; without one there is nothing to ask for.
    external_id: str | None
    #: Hot goes first: somebody asked for it.
    lane: Lane
    #: Its place in time: within a lane the oldest goes first.
    start_time: datetime
    state: ItemState
    #: Failed fetches.
    retry_count: int = 0
    #: Times that the provider put it off.
    deferrals: int = 0
    #: Workers lost while they held it.
    crashes: int = 0
    #: When it may be claimed; None where nothing happens by itself.
    next_attempt_at: datetime | None = None
    deferred_until: datetime | None = None
    attempted_at: datetime | None = None
    #: When the provider last refused it by its limit (429).
    limited_at: datetime | None = None
    error: str | None = None
    token: int = 0
    lease_until: datetime | None = None
    worker: str | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def stuck(self) -> bool:
        """Whether only an operator can set it going again."""
        return self.state is ItemState.FAILED and self.next_attempt_at is None


# ---- what is fetched ---------------------------------------------------------------------------


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider gave for one item: stored whole, and served as it is."""

    #: As HTTP names it: "application/json".
    media_type: str
    body: bytes
    #: What is worth knowing of it without opening it: a small JSON object.
    attributes: JsonObject = {}

    def __post_init__(self) -> None:
        """Raise Malformed for what could not be stored, or not be served as what it is."""
        known = _MEDIA_TYPE.fullmatch(self.media_type)
        if known is None or len(self.media_type) > MEDIA_TYPE_LENGTH_MAX:
            raise Malformed(f"media_type: {self.media_type!r} is not one, as {JSON!r} is")
        try:
            text = to_json(self.attributes).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise Malformed(f"attributes: JSON cannot hold them: {error}") from None
        if not text.startswith(b"{"):
            raise Malformed("attributes: they must be a JSON object")
        if len(text) > ATTRIBUTES_BYTES_MAX:
            raise Malformed(
                f"attributes: {len(text):,} bytes of JSON are more than {ATTRIBUTES_BYTES_MAX:,}; "
                "put what is large into the body"
            )

    @staticmethod
    def of_json(data: Json, attributes: JsonObject | None = None) -> "Document":
        """A document of `data` as JSON: equal data gives equal bytes."""
        return Document(media_type=JSON, body=to_json(data).encode(), attributes=attributes or {})


# ---- changes -----------------------------------------------------------------------------------


class ItemChange(Change[Item], frozen=True, gc=False, kw_only=True):
    """One transition of one item, not yet applied."""

    edge: Edge[ItemEdge, ItemState]
    #: The provider refused it by its limit just now.
    limited: bool = False


def _fill(change: ItemChange, locked: LockedRow) -> dict[str, Any]:
    deferred = change.edge.target is ItemState.DEFERRED
    return {
        "deferred_until": locked.now + (change.wake or NOW) if deferred else None,
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


def _change(
    item: Item,
    edge: ItemEdge,
    becomes: Item,
    *,
    wake: timedelta | None = None,
    limited: bool = False,
    lease_seen: datetime | None = None,
    fences: bool = False,
) -> ItemChange:
    to = ITEM.edge(edge)
    if item.state not in to.sources:
        raise IllegalTransition(f"the item {item.id!r} is {item.state.value}: no {edge} from there")
    return ItemChange(
        before=item,
        after=replace(becomes, state=to.target),
        edge=to,
        wake=wake,
        limited=limited,
        lease_seen=lease_seen,
        fences=fences,
    )


# By the worker that holds the claim.


def succeed(item: Item) -> ItemChange:
    """It was fetched; its document goes with this."""
    return _change(item, ItemEdge.SUCCEED, replace(item, error=None))


def fail(item: Item, *, error: str, after: timedelta | None) -> ItemChange:
    """The fetch failed; it is tried again after a while, or never where that is None."""
    becomes = replace(item, error=error, retry_count=item.retry_count + 1)
    return _change(item, ItemEdge.FAIL, becomes, wake=after)


def defer(
    item: Item, *, after: timedelta, error: str, limited: bool = False, counts: bool = True
) -> ItemChange:
    """Not before that: no try is burnt. What we hold back ourselves does not even count."""
    becomes = replace(item, error=error, deferrals=item.deferrals + counts)
    return _change(item, ItemEdge.DEFER, becomes, wake=after, limited=limited)


def give_up(item: Item, *, error: str, limited: bool = False) -> ItemChange:
    """The provider has put it off too often."""
    deferrals = item.deferrals + 1
    becomes = replace(item, error=f"put off {deferrals} times: {error}", deferrals=deferrals)
    return _change(item, ItemEdge.FAIL, becomes, limited=limited)


def find_nothing(item: Item, *, reason: str) -> ItemChange:
    """The provider has nothing there, and that is an answer."""
    return _change(item, ItemEdge.FIND_NOTHING, replace(item, error=reason))


def release(item: Item) -> ItemChange:
    """Given back untouched, for anybody to take."""
    return _change(item, ItemEdge.RELEASE, item, wake=NOW, fences=True)


# By whoever looks after lost workers.


def rescue(item: Item, *, after: timedelta) -> ItemChange:
    """The lease ran out: the worker is dead or cut off. A crash, not a failure."""
    becomes = replace(item, crashes=item.crashes + 1)
    seen = item.lease_until
    return _change(item, ItemEdge.RESCUE, becomes, wake=after, lease_seen=seen, fences=True)


def abandon(item: Item) -> ItemChange:
    """It has taken down worker after worker: stop feeding it."""
    becomes = replace(item, crashes=item.crashes + 1, error=LOST)
    return _change(item, ItemEdge.FAIL, becomes, lease_seen=item.lease_until, fences=True)


# By people, and by what is learnt elsewhere.


def appear(item: Item, external_id: str) -> ItemChange:
    """The provider's id of it is known at last: now there is something to ask for."""
    if item.external_id is not None:
        raise IllegalTransition(f"the item {item.id!r} had an id all along")
    becomes = replace(item, external_id=external_id, error=None)
    return _change(item, ItemEdge.APPEAR, becomes, wake=NOW, fences=True)


def reset(item: Item, *, after: timedelta = NOW) -> ItemChange:
    """Start afresh, with a clean sheet, at once or later; whoever holds it is shut out."""
    if item.external_id is None:
        raise IllegalTransition(f"the item {item.id!r} has no id at the provider: nothing to fetch")
    becomes = replace(item, retry_count=0, deferrals=0, crashes=0, error=None)
    return _change(item, ItemEdge.RESET, becomes, wake=after, fences=True)
