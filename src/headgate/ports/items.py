"""What the engine asks of a store of items, under the promises of `ports/leases.py`."""

import gzip
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from headgate.base.encoding import JsonObject
from headgate.model.item import Document, Item, ItemChange
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.ports.leases import Leases


class NewItem(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A thing that was found and is to be fetched; without an id at the provider it waits for one.

    Registering it again, with an id this time, sets it going.
    """

    id: str
    collection: str
    user_id: str
    connection_id: str
    external_id: str | None
    start_time: datetime
    lane: Lane = Lane.COLD


class RegisterResult(msgspec.Struct, frozen=True):
    """What became of items that were found."""

    #: How many were not known before.
    created: int
    #: How many were known, but had no id until now.
    appeared: int


class StoredDocument(msgspec.Struct, frozen=True, gc=False):
    """A document as it is kept: encoded, so that it can be served without touching it."""

    item_id: str
    media_type: str
    attributes: JsonObject
    fetched_at: datetime
    #: Of the content: an ETag.
    hash: str
    #: As HTTP names it; to be sent as Content-Encoding with `body`.
    encoding: str
    body: bytes

    def content(self) -> bytes:
        """What was fetched, without the encoding."""
        return gzip.decompress(self.body)


class ServedItem(msgspec.Struct, frozen=True):
    """An item, and its document where it was fetched: as both were in one moment."""

    item: Item
    document: StoredDocument | None


class FetchAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at fetching an item, and what became of it."""

    #: As it was claimed.
    item: Item
    #: As it was left; None where the claim was lost, and nothing was written.
    after: Item | None
    #: What was fetched, or else what went wrong.
    document: Document | None
    error: Exception | None
    duration_s: float
    #: What is left of the provider's tightest window, where that is known.
    budget_remaining: int | None


class FetchedItems(msgspec.Struct, frozen=True, kw_only=True):
    """What fetching the due items of a collection came to."""

    #: As they were left; those whose claim was lost are not among them.
    items: Sequence[Item]
    #: How long until there is more to do: zero where that may be now. None: nothing is left,
    #: neither to wait for nor in another worker's hands.
    wait: timedelta | None
    #: What cut it short, after something was fetched.
    error: Exception | None = None


class ItemCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How all items of a collection stand."""

    #: Every state has its number, zero included.
    states: Mapping[ItemState, int]
    #: Of the failed ones: how many have failed so often.
    retries: Mapping[int, int]


class ItemStore(Leases[Item, ItemChange, Document], Protocol):
    """Items, and the documents that were fetched for them."""

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Store the items that are not known yet, and set those going that have an id at last.

        Those of a connection that was removed are left out.
        """
        ...

    async def claim(
        self,
        collection: str,
        connection_id: str,
        *,
        limit: int,
        lease: timedelta,
        worker: str,
        lane: Lane | None = None,
    ) -> Sequence[Item]:
        """Take up to `limit` due items of a connection; nobody else gets them.

        Hot ones first, and then the oldest; that is also the order in which they are returned.
        """
        ...

    async def next_due_s(
        self, collection: str, connection_id: str, *, lane: Lane | None = None
    ) -> float | None:
        """Seconds until one can be claimed, or another's claim ends; None when nothing is left."""
        ...

    async def list_items(
        self,
        collection: str | None,
        *,
        user_id: str | None = None,
        states: Sequence[ItemState] = (),
        limit: int,
        after: str | None = None,
    ) -> Sequence[Item]:
        """Items of one collection or of all, in the order of their ids, after the id `after`."""
        ...

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """The item with its document, in one statement; NotFound as in `get`."""
        ...

    async def count_items(self, collection: str) -> ItemCounts:
        """How all items of a collection stand: one walk along an index."""
        ...

    async def progress(self, collection: str, user_id: str) -> Mapping[ItemState, int]:
        """How many of a user's items are in each state."""
        ...

    async def progress_of_connection(
        self, collection: str, connection_id: str
    ) -> Mapping[ItemState, int]:
        """How many of a connection's items are in each state."""
        ...

    async def count_stuck(self, collection: str) -> int:
        """How many have failed for good: only a reset helps them."""
        ...

    async def count_limited(self, collection: str, *, within: timedelta) -> int:
        """How many items the provider has refused by its limit (429) in that time."""
        ...

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """What was last fetched for each of these items, whatever became of them since."""
        ...

    async def forget_items(self, item_ids: Sequence[str]) -> int:
        """Delete these items with their documents; how many there were."""
        ...

    async def forget(self, connection_id: str, *, limit: int) -> int:
        """Delete up to so many of the connection's items with their documents; how many."""
        ...

    async def forget_removed(self, *, limit: int) -> int:
        """Delete up to so many items of a connection that was removed; 0 when none is left."""
        ...
