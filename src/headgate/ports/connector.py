"""What a developer writes: how to read one chunk from a source, how to write one batch to a place.

Everything around it (leases, retries, checkpoints, budgets, progress) is the engine's.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime
from typing import Protocol

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import Json, JsonObject
from headgate.base.errors import RateLimited
from headgate.model.job import Mode, Progress
from headgate.model.record import Record


class Passage(Protocol):
    """A request that may be sent now. It is counted."""

    #: What is left of the provider's tightest window, where that is known.
    remaining: int | None

    async def saw(self, counts: Mapping[str, int]) -> None:
        """The answer told the provider's own counts, by the limit's name."""
        ...

    async def refused(self, retry_after_s: float | None = None) -> RateLimited:
        """The answer was 429: close the budget for everybody. Raise what this returns."""
        ...


class Gate(Protocol):
    """The way to the provider: every request passes it, retries included."""

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Passage]:
        """Wait for a place in every window and for a slot, or raise BudgetSpent.

        `essential`: live work may send it on a small local share while the limiter is away.
        """
        ...


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
    #: In mode `since`: read what changed after this.
    since: datetime | None
    #: In mode `limit`: read at most so many records over the whole job.
    limit: int | None
    options: JsonObject
    #: How far the job has come: chunks and records before this one.
    chunks: int
    records: int
    clock: Clock
    #: Every request to the provider passes here.
    gate: Gate


class Chunk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one read brought: one chunk is one durable checkpoint."""

    records: Sequence[Record] = ()
    #: Where the next chunk begins; None says that this was the last. History mode ignores it: there
    #: the engine goes from day to day.
    cursor: Json = None
    #: How far along, where the source knows. History mode ignores it too.
    progress: Progress | None = None


class Source(Protocol):
    """Where records come from."""

    @property
    def name(self) -> str:
        """The provider's name. Breakers and budgets are shared by it."""
        ...

    #: A source whose provider limits its requests also has a `budget`.

    async def read(self, ctx: Context) -> Chunk:
        """Read one chunk.

        Must be safe to call again with the same context: a crash repeats it. Raise what
        `base/errors.py` names (RateLimited, AuthExpired, NoData, Transient, …).
        """
        ...


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a destination is given: the records of one chunk, under a key that repeats on retry."""

    key: str
    user_id: str
    connection_id: str
    sync: str
    day: date | None
    records: Sequence[Record]


class Destination(Protocol):
    """Where records go when they do not stay in Headgate's own database."""

    @property
    def name(self) -> str:
        """The destination's name."""
        ...

    async def write(self, batch: Batch) -> None:
        """Write the batch. It may come twice with the same key; accept it once."""
        ...
