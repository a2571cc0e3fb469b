"""The interfaces of a connector: a source reads one chunk, a destination writes one batch.

A developer implements them. The engine does the rest: leases, retries, checkpoints, budgets and
progress.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol, runtime_checkable

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import Json, JsonObject
from headgate.base.errors import Terminal
from headgate.model.budget import Budget
from headgate.model.item import Document, Item
from headgate.model.job import Lane, Mode, Progress
from headgate.model.record import ITEMS_FAILED, ChunkEvent, ChunkMessage, Record
from headgate.model.states import ReceiptState
from headgate.ports.connections.auth import Auth
from headgate.ports.http import ClientOptions, Gate, Http
from headgate.ports.items import FetchedItems, NewItem, RegisterResult


class Context(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The input of a source for one chunk: what to read, and what to read it with."""

    job_id: str
    user_id: str
    connection_id: str
    sync: str
    mode: Mode
    #: The day to read, in mode history.
    day: date | None
    #: The cursor that the source returned with its last chunk; None at the beginning.
    cursor: Json
    #: In mode `since`: read what changed after this time; None: see `high_water`.
    since: datetime | None
    #: In mode `limit`: read at most so many records in the whole job.
    limit: int | None
    #: In mode `since` without a time: read what came after this mark, which the last successful job
    #: of the sync and the connection stored; None: read everything.
    high_water: Json = None
    options: JsonObject
    #: The number of chunks and records that the job has committed.
    chunks: int
    records: int
    clock: Clock
    #: Asks the budget; `http` uses it for every request.
    gate: Gate
    #: Use `http`, which raises a helpful error if there is no API.
    api: Http | None = None
    #: Use `items`.
    item_work: "ItemWork | None" = None
    #: Use `stored_hashes` and `stored_records`.
    find_hashes: "FindHashes | None" = None
    find_records: "FindRecords | None" = None
    #: Use `receipts`.
    find_receipts: "FindReceipts | None" = None

    @property
    def http(self) -> Http:
        """The provider's API, whose requests spend its budget."""
        if self.api is None:
            raise Terminal(
                f"the source of sync {self.sync!r} has no API: make it a headgate.ApiSource, "
                "which names the address of the API"
            )
        return self.api

    @property
    def items(self) -> "ItemWork":
        """The items of the job's connection."""
        assert self.item_work is not None, "the engine gives a sync with collections its items"
        return self.item_work

    async def stored_hashes(self, keys: Sequence[str]) -> dict[str, str]:
        """The content hashes of the stored records among these keys, by key.

        `headgate.toolkit.content_hash(data)` gives the same hash, so equal hashes mean an unchanged
        record.
        """
        assert self.find_hashes is not None, "the engine gives every job its stored hashes"
        return await self.find_hashes(keys)

    async def stored_records(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        """The data of the stored records among these keys, by key; any number of keys."""
        assert self.find_records is not None, "the engine gives every job its stored records"
        return await self.find_records(keys)

    async def receipts(self, keys: Sequence[str]) -> Mapping[str, ReceiptState]:
        """What the destination has made of the records under these keys, if they were ever sent.

        Ask before preparing a record is expensive: one that is TAKEN is not sent again, and counts
        in `Chunk.delivered_before`. Without `Sync.delivers_once`, nothing is remembered. Let
        RecordsClaimed through: another job is sending one of them, and the engine waits for it.
        """
        assert self.find_receipts is not None, "the engine gives every job its receipts"
        return await self.find_receipts(keys)


#: Finds the hashes of a job's records by their keys.
FindHashes = Callable[[Sequence[str]], Awaitable[dict[str, str]]]
#: Finds the data of a job's records by their keys.
FindRecords = Callable[[Sequence[str]], Awaitable[dict[str, JsonObject]]]

#: Finds what the destination has made of a job's records by their keys.
FindReceipts = Callable[[Sequence[str]], Awaitable[Mapping[str, ReceiptState]]]

#: Fetches one item from the provider with `ctx.http`; raises errors of `base/errors.py`.
Fetch = Callable[[Context, Item], Awaitable[Document]]


class ItemWork(Protocol):
    """The items of the job's connection, as its source uses them."""

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Register items to fetch; items that are registered already stay as they are."""
        ...

    async def fetch_due(
        self,
        ctx: Context,
        collection: str,
        fetch: Fetch,
        *,
        limit: int = ...,
        lane: Lane | None = None,
    ) -> FetchedItems:
        """Fetch the connection's next due items, hot ones first, then the oldest.

        With a lane, only items of that lane. `Chunk.of_items` turns the result into a chunk. If an
        error stops all items (the budget is spent, the credentials are refused, the provider is
        down) before anything was fetched, it is raised, and no item stays claimed.
        """
        ...

    async def progress(
        self, *collections: str, lane: Lane | None = None, of_job: bool = False
    ) -> Progress:
        """How many of the connection's items are done, the total, and the number in each state.

        An item is done when nothing more happens to it by itself: it was fetched, there is nothing
        to fetch, or it failed for good. With `of_job`, items that were done before the job was
        submitted are left out. Without it, a job over one collection is shown with the present
        numbers, and its items are what it found and imported.
        """
        ...


class Chunk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The result of one read; committing a chunk is a durable checkpoint."""

    records: Sequence[Record] = ()
    #: Records that stay in Headgate's database, even if the others go to a destination.
    kept: Sequence[Record] = ()
    #: The keys of stored records to delete: what they described is gone at the source.
    removed: Sequence[str] = ()
    #: Records that were found and left out, because the destination has them; see `ctx.receipts`.
    delivered_before: int = 0
    #: Messages to enqueue in the outbox, in the transaction that commits the chunk.
    messages: Sequence[ChunkMessage] = ()
    #: The source's own events, written before the engine's event for the chunk.
    events: Sequence[ChunkEvent] = ()
    #: Makes further events, written after those, from what the destination has taken and refused.
    events_after_write: "Callable[[WriteResult], Sequence[ChunkEvent]] | None" = None
    #: The source's own counts, which are added up over the job's life.
    counts: Mapping[str, int] = {}
    #: Where the next chunk begins; None: this was the last chunk. Mode history ignores it, because
    #: there the engine goes from day to day.
    cursor: Json = None
    #: The next chunk begins after this time, or earlier if new work arrives. Mode history ignores
    #: it too.
    wait: timedelta | None = None
    #: The error that ended the chunk early. What was read is committed first; then the error is
    #: handled as if it had been raised. In mode history the day is read again.
    error: Exception | None = None
    #: A high-water mark: everything up to this value has been read. When the job succeeds, it is
    #: stored for the sync and the connection, and the next job gets it.
    high_water: Json = None
    #: The job's progress, if the source knows it. Mode history ignores it too.
    progress: Progress | None = None

    @classmethod
    def of_items(
        cls, *fetched: FetchedItems, cursor: Json = None, progress: Progress | None = None
    ) -> "Chunk":
        """A chunk for fetched items: the job goes on, or waits, while items are left.

        `cursor` is the cursor of the next chunk, if there is one.
        """
        waits = [each.wait for each in fetched if each.wait is not None]
        errors = [each.error for each in fetched if each.error is not None]
        stuck = sum(item.stuck for each in fetched for item in each.items)
        return cls(
            cursor=cursor if waits else None,
            wait=min(waits, default=None),
            counts={ITEMS_FAILED: stuck} if stuck else {},
            error=errors[0] if errors else None,
            progress=progress,
        )


class Source(Protocol):
    """A source of records."""

    @property
    def name(self) -> str:
        """The provider's name. Sources of the same name share breakers and budgets."""
        ...

    #: A source whose provider limits requests is also `Limited`; one that reads an API over HTTP is
    #: also a `Provider`: see ApiSource.

    async def read(self, ctx: Context) -> Chunk:
        """Read one chunk.

        It must be safe to call again with the same context, because a crash repeats the call. Raise
        errors of `base/errors.py` (RateLimited, AuthExpired, NoData, Transient, …).
        """
        ...


@runtime_checkable
class Limited(Protocol):
    """A source or a destination whose provider limits requests."""

    @property
    def budget(self) -> Budget | None:
        """The provider's limits; None: no limits."""
        ...


@runtime_checkable
class Provider(Limited, Protocol):
    """A source or a destination that uses a provider's API over HTTP; see ApiProvider."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    @property
    def title(self) -> str:
        """The provider's name for people."""
        ...

    @property
    def auth(self) -> Auth | None:
        """How users connect their accounts; None: there are no connections, but the users' ids."""
        ...

    @property
    def ports(self) -> frozenset[int]:
        """The network ports that the API is called on."""
        ...

    def open_http(self, options: ClientOptions) -> Http:
        """The client of the API for one chunk."""
        ...


class Batch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The input of a destination: the records of one chunk, with a key that a retry repeats."""

    key: str
    user_id: str
    #: The user's connection to the source, and to the destination if it has users.
    connection_id: str
    destination_connection_id: str | None = None
    sync: str
    day: date | None
    records: Sequence[Record]
    clock: Clock
    #: Use `http`, which raises a helpful error if there is no API.
    api: Http | None = None

    @property
    def http(self) -> Http:
        """The destination's API, whose requests spend its budget."""
        if self.api is None:
            raise Terminal(
                f"the destination of sync {self.sync!r} has no API: make it a "
                "headgate.ApiDestination, which names the address of the API"
            )
        return self.api


class Refusal(msgspec.Struct, frozen=True):
    """A record that the destination will never take, and the reason, for people."""

    key: str
    reason: str


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of writing a batch."""

    #: Records to store in Headgate's database, one for each record that was taken, with the
    #: destination's id of it.
    receipts: Sequence[Record] = ()
    #: Records that were refused; all others of the batch were taken.
    refused: Sequence[Refusal] = ()


class Destination(Protocol):
    """A destination for records that do not stay in Headgate's own database."""

    @property
    def name(self) -> str:
        """The destination's name."""
        ...

    #: A destination whose provider limits requests is also `Limited`; one that writes to an API
    #: over HTTP is also a `Provider`: see ApiDestination.

    async def write(self, batch: Batch) -> WriteResult | None:
        """Write the batch. It may come twice with the same key; accept it once.

        Raise errors of `base/errors.py`. A record that can never be taken is a Refusal, not an
        error. None means that all records were taken and there are no receipts.
        """
        ...
