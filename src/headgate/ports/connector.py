"""The interfaces of a connector: a source reads one chunk, a destination writes one batch.

A developer implements them. The engine does the rest: leases, retries, checkpoints, budgets and
progress.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime, timedelta
from random import Random
from typing import Protocol, TypedDict, Unpack, runtime_checkable

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import Json, JsonObject
from headgate.base.errors import RateLimited, SourceError, Terminal
from headgate.model.budget import Budget
from headgate.model.item import Document, Item
from headgate.model.job import Lane, Mode, Progress
from headgate.model.record import ITEMS_FAILED, ChunkEvent, ChunkMessage, Record
from headgate.model.states import ReceiptState
from headgate.ports.connections.auth import Auth, TokenPlacement
from headgate.ports.items import FetchedItems, NewItem, RegisterResult
from headgate.ports.transport import Response, Transport


class Permit(Protocol):
    """The permission to send one request, which is already counted."""

    #: What is left of the provider's tightest window, if known.
    remaining: int | None

    @property
    def send_within_s(self) -> float:
        """The seconds in which the request must be sent from now on; 0 or less: too late.

        Later, the window in which it counts may be over. Whoever sends requests without `ctx.http`
        must not send them after that.
        """
        ...

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Report the provider's own counts from its answer, by the limit's name."""
        ...

    async def close_budget(
        self, retry_after_s: float | None = None, limit: str | None = None
    ) -> RateLimited:
        """Close the budget for everybody after a 429; raise the error that this returns.

        `limit` is the name of the limit that is spent, if the provider says it.
        """
        ...


class Gate(Protocol):
    """Asks the provider's budget before every request, retries included."""

    @property
    def remaining(self) -> int | None:
        """What the last grant left of the budget; None before the first, and without a budget."""
        ...

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Permit]:
        """Wait until the budget grants a request, or raise BudgetSpent if that takes too long.

        An `essential` request of live work may use a small local share of the budget while the
        limiter is unreachable.
        """
        ...


class RequestOptions(TypedDict, total=False):
    """The options of a request besides its path and query; all are optional."""

    #: Headers besides those of the provider and of the credentials.
    headers: Mapping[str, str]
    #: The body, as JSON. A request has one of the four forms of a body.
    json: Json
    #: The body, as a form.
    form: Mapping[str, str]
    #: The body, as a form with files.
    multipart: Mapping[str, "str | File"]
    #: The body, as it is.
    body: bytes
    #: The kind of request, which selects the limits that it counts against; by default `read`.
    kind: str
    #: Live work may send it on a small local share while the limiter is unreachable.
    essential: bool
    #: It may be sent again if its outcome is unknown. GET, HEAD, PUT and DELETE always may.
    repeatable: bool
    #: Statuses that do not count as an error.
    accept: Collection[int]
    #: The error for a 404: NoData or Terminal.
    not_found: type[SourceError]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a form."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"

    def __repr__(self) -> str:
        return f"File({self.name!r}, {len(self.content)} bytes)"


class NextPage(msgspec.Struct, frozen=True, kw_only=True):
    """The request for the next page: more parameters, or another address."""

    params: Mapping[str, object] = {}
    url: str | None = None


class Paging(Protocol):
    """How a provider pages a long list."""

    def first(self) -> NextPage:
        """The first page."""
        ...

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """The page after this one; None if it was the last."""
        ...


class Http(Protocol):
    """The provider's API: `ctx.http` of a source, `batch.http` of a destination.

    Every attempt asks the budget first; errors are those of `headgate.errors`.
    """

    @property
    def external_id(self) -> str | None:
        """The provider's id of the account that the requests are for; None if it has none."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a request, with retries where they may help, and return the response or raise."""
        ...

    async def get(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a GET request."""
        ...

    async def post(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a POST request."""
        ...

    def pages(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        *,
        paging: Paging,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Response]:
        """Read a list page by page."""
        ...


class TokenProvider(Protocol):
    """The credentials of one connection, as the HTTP client uses them."""

    @property
    def external_id(self) -> str | None:
        """The provider's id of the connected account, if it is known."""
        ...

    async def place_token(self) -> TokenPlacement:
        """The headers and parameters of a valid access token, renewed if it expires soon."""
        ...

    async def renew(self) -> None:
        """Get a new token, because the provider refused this one; or raise AuthExpired."""
        ...

    async def reject(self, message: str) -> None:
        """Record that the provider refused the new token too: the user must connect again."""
        ...


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client of a provider's API needs for one chunk."""

    gate: Gate
    transport: Transport
    #: None: the provider needs no credentials.
    access: TokenProvider | None
    clock: Clock
    rng: Random


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
