"""The store of items and their documents, under the promises of `ports/leases.py`."""

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
    """An item to register. Without an id at the provider it waits for one.

    Registering the item again with an id makes it pending.
    """

    id: str
    collection: str
    user_id: str
    connection_id: str
    external_id: str | None
    start_time: datetime
    lane: Lane = Lane.COLD


class RegisterResult(msgspec.Struct, frozen=True):
    """The result of registering items."""

    #: How many are new.
    created: int
    #: How many were registered without an id at the provider, and have one now.
    appeared: int


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider has deleted of a connection's data, and is to be deleted here."""

    connection_id: str
    item_ids: Sequence[str] = ()
    #: The names that records are stored under, and the keys of those that are gone.
    stored_as: Sequence[str] = ()
    keys: Sequence[str] = ()
    #: The syncs whose jobs may be about to store such records.
    syncs: Sequence[str] = ()


class StoredDocument(msgspec.Struct, frozen=True, gc=False):
    """A document as it is stored: encoded, so that it can be served as it is."""

    item_id: str
    media_type: str
    attributes: JsonObject
    fetched_at: datetime
    #: A hash of the content, which serves as the ETag.
    hash: str
    #: The Content-Encoding to send with `body`.
    encoding: str
    body: bytes

    def content(self) -> bytes:
        """The content, decoded."""
        return gzip.decompress(self.body)


class ServedItem(msgspec.Struct, frozen=True):
    """An item with its document, if it was fetched; both are read in one statement."""

    item: Item
    document: StoredDocument | None


class FetchAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to fetch an item, and its result."""

    #: The item as it was claimed.
    item: Item
    #: The item after the attempt; None if the claim was lost and nothing was written.
    after: Item | None
    #: The document that was fetched, or the error.
    document: Document | None
    error: Exception | None
    duration_s: float
    #: What is left of the provider's tightest window, if known.
    budget_remaining: int | None


class FetchedItems(msgspec.Struct, frozen=True, kw_only=True):
    """The result of fetching the due items of a collection."""

    #: The items after their attempts, without those whose claim was lost.
    items: Sequence[Item]
    #: How long until there is more to do, zero if there may be now. None: nothing is left to fetch
    #: or to wait for, and no other worker has an item claimed.
    wait: timedelta | None
    #: The error that ended the batch early, after something was fetched.
    error: Exception | None = None


class ItemCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a collection's items."""

    #: The number of items in each state, zero included.
    states: Mapping[ItemState, int]
    #: Failed items, by the number of their failures.
    retries: Mapping[int, int]


class ItemProgress(msgspec.Struct, frozen=True):
    """How far a connection's items are."""

    #: The number of items in each state, zero included.
    states: Mapping[ItemState, int]
    #: How many are still to be fetched: they wait, are claimed, or are tried again.
    left: int


class ItemStore(Leases[Item, ItemChange, Document], Protocol):
    """Items, and the documents that were fetched for them."""

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Store new items, and make those pending that now have an id at the provider.

        Items of a removed connection are left out, and those that were deleted in the last day.
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
        """Claim up to `limit` due items of a connection. No other worker gets the same items.

        Hot items come first, then the oldest, and are returned in that order.
        """
        ...

    async def next_due_s(
        self, collection: str, connection_id: str, *, lane: Lane | None = None
    ) -> float | None:
        """Seconds until an item can be claimed or a claim ends; None if nothing is left."""
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
        """Items of one collection or all, in the order of their ids, after the id `after`."""
        ...

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """The item with its document, in one statement; NotFound as in `get`."""
        ...

    async def count_items(self, collection: str) -> ItemCounts:
        """The counts of a collection's items, by a scan of an index."""
        ...

    async def progress(self, collection: str, user_id: str) -> Mapping[ItemState, int]:
        """The number of a user's items in each state."""
        ...

    async def progress_of_connections(
        self,
        of: Sequence[tuple[str, str]],
        *,
        lane: Lane | None = None,
        since: datetime | None = None,
    ) -> Mapping[tuple[str, str], ItemProgress]:
        """How far the items of each (collection, connection id) are, of one lane or of both.

        With `since`, only items that are left, and those that were done since then, are counted.
        """
        ...

    async def count_stuck(self, collection: str) -> int:
        """The number of items that failed for good, until they are reset."""
        ...

    async def count_limited(self, collection: str, *, within: timedelta) -> int:
        """The number of items that the provider's rate limit (429) refused in that time."""
        ...

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """The last document of each of these items, whatever state they are in."""
        ...

    async def delete(self, deletion: Deletion) -> int:
        """Delete items, their documents and records in one transaction; returns how many.

        They stay deleted: for a day none of them is registered or stored, by whoever read it before
        it was deleted.
        """
        ...

    async def forget(self, connection_id: str, *, limit: int) -> int:
        """Delete up to `limit` of the connection's items and documents; returns how many."""
        ...

    async def forget_removed(self, *, limit: int) -> int:
        """Delete up to `limit` items of one removed connection; returns 0 if none is left."""
        ...
