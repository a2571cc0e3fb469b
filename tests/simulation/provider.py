"""The outside world of a simulation: a provider that fails, and a ledger that records."""

import asyncio
import contextvars
import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from headgate.base.errors import Malformed, NoData, RateLimited, Transient
from headgate.model.job import Mode
from headgate.model.record import ChunkEvent, ChunkMessage, Record
from headgate.ports.connector import Batch, Chunk, Context
from headgate.testing.host import current_host

PAGES = 6
#: The longest time for which a source blocks its process.
BLOCKED_S_MAX = 60.0
#: The share of chunks that enqueue a message, the topic of that, and the event that says so.
CHUNK_MESSAGES = 0.3
CHUNK_TOPIC = "chunks"
CHUNK_EVENT = "chunk_announced"
#: A tolerance: times are stored in microseconds, the loop's seconds are finer.
TICK_S = 0.001


class FaultRates:
    """The fault rates of the outside world; the last act has none."""

    def __init__(self) -> None:
        self.fails = 0.0
        self.defers = 0.0
        self.hangs = 0.0

    def off(self) -> None:
        """Switch all faults off."""
        self.fails = self.defers = self.hangs = 0.0


def records_of(connection_id: str, day: date) -> list[Record]:
    """Return the provider's records of a day: always the same, on some days none."""
    count = (day.toordinal() + len(connection_id)) % 4
    return [Record(f"{day}:{n}", {"day": day.isoformat(), "n": n}) for n in range(count)]


class EarlyRequest(NamedTuple):
    """A request that came before the end of the wait that the provider asked for."""

    job_id: str
    refused_at: float
    arrived_at: float


class SimulatedProvider:
    """A source that has days and pages."""

    def __init__(self, name: str, draw: random.Random, trouble: FaultRates) -> None:
        self.name = name
        self._draw = draw
        self._trouble = trouble
        #: When each job was last refused, and until when it must wait, by the provider's clock.
        self._refused: dict[str, tuple[float, float]] = {}
        self.early: list[EarlyRequest] = []

    async def read(self, ctx: Context) -> Chunk:
        """Return one chunk after a while, or fail in one of many ways."""
        self._judge_arrival(ctx)
        await ctx.clock.sleep(self._draw.uniform(0, 5))
        self._misbehave(ctx)
        if self._draw.random() < self._trouble.hangs:
            await ctx.clock.sleep(1e6)
        await self._block(ctx)
        if ctx.mode is Mode.HISTORY:
            assert ctx.day is not None
            records = records_of(ctx.connection_id, ctx.day)
            if not records and self._draw.random() < 0.5:
                raise NoData
            return self._announced(ctx, Chunk(records=records))
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        records = [Record(f"page {page}", {"page": page})]
        cursor = page + 1 if page + 1 < PAGES else None
        return self._announced(ctx, Chunk(records=records, cursor=cursor))

    async def _block(self, ctx: Context) -> None:
        """Now and then stop the whole process, heartbeat and all, as code that blocks does.

        When the process goes on, the chunk goes on first.
        """
        host = current_host()
        if host is not None and self._draw.random() < self._trouble.hangs:
            host.pause()
            loop = asyncio.get_running_loop()
            loop.call_later(
                self._draw.uniform(BLOCKED_S_MAX / 3, BLOCKED_S_MAX),
                host.resume,
                context=contextvars.Context(),
            )
            await ctx.clock.sleep(0)

    def _announced(self, ctx: Context, chunk: Chunk) -> Chunk:
        """Return the chunk, now and then with a message and an event of the same mark.

        The mark is new at every read, so both are of the read that was committed, or neither is.
        """
        if self._draw.random() >= CHUNK_MESSAGES:
            return chunk
        mark = f"{ctx.job_id}-{self._draw.random()}"
        message = ChunkMessage(topic=CHUNK_TOPIC, payload={"mark": mark})
        return replace(chunk, messages=[message], events=[ChunkEvent(CHUNK_EVENT, {"mark": mark})])

    def _judge_arrival(self, ctx: Context) -> None:
        now = ctx.clock.monotonic()
        refused_at, until = self._refused.get(ctx.job_id, (0.0, 0.0))
        if now < until - TICK_S:
            self.early.append(EarlyRequest(ctx.job_id, refused_at, now))

    def _misbehave(self, ctx: Context) -> None:
        if self._draw.random() < self._trouble.fails:
            raise self._draw.choice((Transient("503"), Malformed("not JSON"), KeyError("data")))
        if self._draw.random() < self._trouble.defers:
            wait_s = self._draw.uniform(-10, 200)
            now = ctx.clock.monotonic()
            self._refused[ctx.job_id] = (now, now + wait_s)
            raise RateLimited(timedelta(seconds=wait_s))


class RequestLedger:
    """A destination that accepts each key once: the reference for ONCE."""

    name = "ledger"

    def __init__(
        self, draw: random.Random, trouble: FaultRates, now_s: Callable[[], float]
    ) -> None:
        self._draw = draw
        self._trouble = trouble
        self._now_s = now_s
        #: When each key was last sent.
        self.sent_s: dict[str, float] = {}
        #: The accepted batches, by key; a repeated key is not accepted again.
        self.accepted: dict[str, Batch] = {}
        self.changed: list[str] = []

    async def write(self, batch: Batch) -> None:
        """Accept the batch once; now and then lose the response, or the request."""
        self.sent_s[batch.key] = self._now_s()
        if self._draw.random() < self._trouble.fails:
            raise Transient("the request to the ledger was lost")
        before = self.accepted.setdefault(batch.key, batch)
        if list(before.records) != list(batch.records):
            self.changed.append(batch.key)
        if self._draw.random() < self._trouble.fails:
            raise Transient("the ledger accepted the batch, but its response was lost")
