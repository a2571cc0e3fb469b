"""The outside world of a simulation: a provider that misbehaves, and a ledger that remembers."""

import random
from datetime import date, timedelta
from typing import NamedTuple

from headgate.base.errors import Malformed, NoData, RateLimited, Transient
from headgate.model.job import Mode
from headgate.model.record import Record
from headgate.ports.connector import Batch, Chunk, Context

PAGES = 6
#: Times are stored in microseconds, which the loop's seconds are not.
TICK_S = 0.001


class FaultRates:
    """How often the outside world misbehaves; switched off for the last act."""

    def __init__(self) -> None:
        self.fails = 0.0
        self.defers = 0.0
        self.hangs = 0.0

    def off(self) -> None:
        """From now on everything answers."""
        self.fails = self.defers = self.hangs = 0.0


def records_of(connection_id: str, day: date) -> list[Record]:
    """What the provider holds for a day: always the same, on some days nothing."""
    count = (day.toordinal() + len(connection_id)) % 4
    return [Record(f"{day}:{n}", {"day": day.isoformat(), "n": n}) for n in range(count)]


class EarlyRequest(NamedTuple):
    """A request that came before the provider wanted to be asked again; virtual seconds."""

    job_id: str
    refused_at: float
    arrived_at: float


class SimulatedProvider:
    """A source of days and pages."""

    def __init__(self, name: str, draw: random.Random, trouble: FaultRates) -> None:
        self.name = name
        self._draw = draw
        self._trouble = trouble
        #: When each job was last refused, and until when, by the provider's own clock.
        self._refused: dict[str, tuple[float, float]] = {}
        self.early: list[EarlyRequest] = []

    async def read(self, ctx: Context) -> Chunk:
        """One chunk, sooner or later, or one of many kinds of failure."""
        self._judge_arrival(ctx)
        await ctx.clock.sleep(self._draw.uniform(0, 5))
        self._misbehave(ctx)
        if self._draw.random() < self._trouble.hangs:
            await ctx.clock.sleep(1e6)
        if ctx.mode is Mode.HISTORY:
            assert ctx.day is not None
            records = records_of(ctx.connection_id, ctx.day)
            if not records and self._draw.random() < 0.5:
                raise NoData
            return Chunk(records=records)
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        records = [Record(f"page {page}", {"page": page})]
        return Chunk(records=records, cursor=page + 1 if page + 1 < PAGES else None)

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
    """A destination that honours keys: the oracle of ONCE."""

    name = "ledger"

    def __init__(self, draw: random.Random, trouble: FaultRates) -> None:
        self._draw = draw
        self._trouble = trouble
        #: What was accepted, by key; a key that comes again is not accepted again.
        self.accepted: dict[str, Batch] = {}
        self.changed: list[str] = []

    async def write(self, batch: Batch) -> None:
        """Accept the batch once; now and then lose the answer, or the request."""
        if self._draw.random() < self._trouble.fails:
            raise Transient("the ledger did not hear")
        before = self.accepted.setdefault(batch.key, batch)
        if list(before.records) != list(batch.records):
            self.changed.append(batch.key)
        if self._draw.random() < self._trouble.fails:
            raise Transient("the ledger heard, but its answer was lost")
