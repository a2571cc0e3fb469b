"""What a developer writes: how to read one chunk from a source, how to write one batch to a place.

Everything around it (leases, retries, checkpoints, budgets, progress) is the engine's.
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
from headgate.model.record import ChunkEvent, Record
from headgate.ports.auth import Auth, TokenPlacement
from headgate.ports.items import FetchedItems, NewItem, RegisterResult
from headgate.ports.transport import Response, Transport


class Permit(Protocol):
    """A request that may be sent now. It is counted."""

    #: What is left of the provider's tightest window, where that is known.
    remaining: int | None

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """The answer told the provider's own counts, by the limit's name."""
        ...

    async def close_budget(self, retry_after_s: float | None = None) -> RateLimited:
        """The answer was 429: close the budget for everybody. Raise what this returns."""
        ...


class Gate(Protocol):
    """The way to the provider: every request passes it, retries included."""

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Permit]:
        """Wait for a place in every window and for a slot, or raise BudgetSpent.

        `essential`: live work may send it on a small local share while the limiter is away.
        """
        ...


class RequestOptions(TypedDict, total=False):
    """What may be said about a request besides its path and query; all of it may be left out."""

    headers: Mapping[str, str]
    #: The body, in one of four ways: as JSON, as a form, as a form with files, or as it is.
    json: Json
    form: Mapping[str, str]
    multipart: Mapping[str, "str | File"]
    body: bytes
    #: Which of the provider's limits it counts against; `read` unless told.
    kind: str
    #: Live work may send it on a small local share while the limiter is away.
    essential: bool
    #: It may be sent again when its outcome is not known. GET, HEAD, PUT and DELETE always may.
    repeatable: bool
    #: Statuses that are no error here.
    accept: Collection[int]
    #: What a 404 means here: NoData or Terminal.
    not_found: type[SourceError]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a form."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"

    def __repr__(self) -> str:
        return f"File({self.name!r}, {len(self.content)} bytes)"


class NextPage(msgspec.Struct, frozen=True, kw_only=True):
    """How the next page is asked for: with more parameters, or at another address."""

    params: Mapping[str, object] = {}
    url: str | None = None


class Paging(Protocol):
    """How a provider hands out a long list."""

    def first(self) -> NextPage:
        """The page to begin with."""
        ...

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """The page after this one; None where it was the last."""
        ...


class Http(Protocol):
    """The provider's API. Every attempt asks the budget first; errors are told by consequence."""

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a request, again where that may help, and return its answer; or raise."""
        ...

    async def get(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Read something."""
        ...

    async def post(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send something."""
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
    """The credentials of one connection, as the HTTP client sees them."""

    async def place_token(self) -> TokenPlacement:
        """An access token that is good now, renewed where it ends soon."""
        ...

    async def renew(self) -> None:
        """The provider refused the token: get another, or raise AuthExpired."""
        ...

    async def reject(self, said: str) -> None:
        """The provider refused that one too: the account must be connected again."""
        ...


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The way to a provider for one chunk: what its client is made of."""

    gate: Gate
    transport: Transport
    #: None where the provider lets everybody in.
    access: TokenProvider | None
    clock: Clock
    rng: Random


class Context(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a source is told about the chunk it should read."""

    job_id: str
    user_id: str
    connection_id: str
    sync: str
    mode: Mode
    #: The day to read, in history mode.
    day: date | None
    #: Where the last chunk ended, as the source itself said; None at the beginning.
    cursor: Json
    #: In mode `since`: read what changed after this; None: see `high_water`.
    since: datetime | None
    #: In mode `limit`: read at most so many records over the whole job.
    limit: int | None
    #: In mode `since` without a time: read what came after this, the mark that the last successful
    #: job of the sync and the connection left; None: read everything.
    high_water: Json = None
    options: JsonObject
    #: How far the job has come: chunks and records before this one.
    chunks: int
    records: int
    clock: Clock
    #: Every request to the provider passes here.
    gate: Gate
    #: Use `http`, which says what is wrong where there is none.
    api: Http | None = None
    #: Use `items`.
    item_work: "ItemWork | None" = None
    #: Use `stored_hashes`.
    find_hashes: "FindHashes | None" = None

    @property
    def http(self) -> Http:
        """The provider's API: the only way to spend its budget."""
        if self.api is None:
            raise Terminal(
                f"the source of sync {self.sync!r} has no API: make it a headgate.ApiSource, "
                "which says where the API is"
            )
        return self.api

    @property
    def items(self) -> "ItemWork":
        """Things that are fetched one by one, each with a life of its own."""
        assert self.item_work is not None, "the engine gives every job its items"
        return self.item_work

    async def stored_hashes(self, keys: Sequence[str]) -> dict[str, str]:
        """The content hashes of those of these records that are stored already, by their keys.

        `headgate.content_hash(data)` makes the same hash: where the two are equal, nothing changed.
        """
        assert self.find_hashes is not None, "the engine gives every job its stored hashes"
        return await self.find_hashes(keys)


#: Finds the hashes of a job's records by their keys.
FindHashes = Callable[[Sequence[str]], Awaitable[dict[str, str]]]

#: Asks the provider for one item, by `ctx.http`; raises what `base/errors.py` names.
Fetch = Callable[[Context, Item], Awaitable[Document]]


class ItemWork(Protocol):
    """Items of the job's connection, as its source works on them."""

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Note things that were found and are to be fetched; known ones stay as they are."""
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

        With a lane, those of that lane alone. `Chunk.of_items` makes a chunk of what this returns.
        Raises what keeps all items back (the budget is spent, the credentials are refused, the
        provider is down) where nothing was fetched before. Nothing is claimed by then.
        """
        ...

    async def progress(self, collection: str) -> Progress:
        """How many of the connection's items of the collection are over, of how many."""
        ...


class Chunk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one read brought: one chunk is one durable checkpoint."""

    records: Sequence[Record] = ()
    #: Records that stay in Headgate's database, even where the others go to a destination.
    kept: Sequence[Record] = ()
    #: What the source tells of the chunk: lines of the job's story, before the engine's own.
    events: Sequence[ChunkEvent] = ()
    #: What the source counts, by names of its own; added up over the job's life.
    counts: Mapping[str, int] = {}
    #: Where the next chunk begins; None says that this was the last. History mode ignores it: there
    #: the engine goes from day to day.
    cursor: Json = None
    #: There is nothing to do before that: the next chunk begins then, or as soon as something comes
    #: in. History mode ignores it too.
    wait: timedelta | None = None
    #: What cut the chunk short, after it has brought something: that is committed first, then this
    #: is dealt with as if it had been raised. In history mode the day is read again.
    error: Exception | None = None
    #: A high-water mark: everything up to this value has been read. It is stored for the sync and
    #: the connection when the job succeeds, and the next job is told it.
    high_water: Json = None
    #: How far along, where the source knows. History mode ignores it too.
    progress: Progress | None = None

    @classmethod
    def of_items(
        cls, *fetched: FetchedItems, cursor: Json = None, progress: Progress | None = None
    ) -> "Chunk":
        """A chunk that fetched items: it goes on while any are left, and waits until one is due.

        `cursor` is what the next chunk is told, if there is one.
        """
        waits = [each.wait for each in fetched if each.wait is not None]
        errors = [each.error for each in fetched if each.error is not None]
        return cls(
            cursor=cursor if waits else None,
            wait=min(waits, default=None),
            error=errors[0] if errors else None,
            progress=progress,
        )


class Source(Protocol):
    """Where records come from."""

    @property
    def name(self) -> str:
        """The provider's name. Breakers and budgets are shared by it."""
        ...

    #: A source whose provider limits its requests is `Limited` too; one that reads an API over HTTP
    #: is a `Provider`: see ApiSource.

    async def read(self, ctx: Context) -> Chunk:
        """Read one chunk.

        Must be safe to call again with the same context: a crash repeats it. Raise what
        `base/errors.py` names (RateLimited, AuthExpired, NoData, Transient, …).
        """
        ...


@runtime_checkable
class Limited(Protocol):
    """A source or a destination whose provider limits its requests."""

    @property
    def budget(self) -> Budget | None:
        """What the provider allows; None: everything."""
        ...


@runtime_checkable
class Provider(Limited, Protocol):
    """A source or a destination that talks to a provider's API over HTTP; see ApiProvider."""

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    @property
    def title(self) -> str:
        """What people call the provider."""
        ...

    @property
    def auth(self) -> Auth | None:
        """How users let us in; None: the provider lets everybody in."""
        ...

    @property
    def ports(self) -> frozenset[int]:
        """Every port that it calls."""
        ...

    def open_http(self, options: ClientOptions) -> Http:
        """The API's client for one chunk."""
        ...


class Batch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a destination is given: the records of one chunk, under a key that repeats on retry."""

    key: str
    user_id: str
    #: The user's link to the source, and to the destination where that has users.
    connection_id: str
    destination_connection_id: str | None = None
    sync: str
    day: date | None
    records: Sequence[Record]
    clock: Clock
    #: Use `http`, which says what is wrong where there is none.
    api: Http | None = None

    @property
    def http(self) -> Http:
        """The destination's API: the only way to spend its budget."""
        if self.api is None:
            raise Terminal(
                f"the destination of sync {self.sync!r} has no API: make it a "
                "headgate.ApiDestination, which says where the API is"
            )
        return self.api


class Refusal(msgspec.Struct, frozen=True):
    """A record that the destination will never take, and why, for people."""

    key: str
    reason: str


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch."""

    #: What is to be remembered of it, in Headgate's database: a record for each that was taken,
    #: with what the destination calls it.
    receipts: Sequence[Record] = ()
    #: The others of the batch were taken.
    refused: Sequence[Refusal] = ()


class Destination(Protocol):
    """Where records go when they do not stay in Headgate's own database."""

    @property
    def name(self) -> str:
        """The destination's name."""
        ...

    #: One whose provider limits its requests is `Limited` too; one that writes to an API over HTTP
    #: is a `Provider`: see ApiDestination.

    async def write(self, batch: Batch) -> WriteResult | None:
        """Write the batch. It may come twice with the same key; accept it once.

        Raise what `base/errors.py` names; a record that can never be taken is no error, but a
        Refusal. None says that all were taken, and nothing is to be remembered.
        """
        ...
