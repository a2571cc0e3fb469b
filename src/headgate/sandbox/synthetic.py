"""A provider that exists nowhere: a person's health history, the same for the same seed.

It stands in for a real API in the demo and in tests: each day has a few records or none, some reads
fail the first time, and chosen days fail for ever.
"""

from collections import Counter
from collections.abc import Collection
from datetime import date
from random import Random

from headgate.base.encoding import Json
from headgate.base.errors import Transient
from headgate.model.job import Mode, Progress
from headgate.model.record import Record
from headgate.ports.connector import Chunk, Context

_KINDS = ("steps", "sleep", "heart_rate", "weight", "workout")
#: A full or incremental read comes in this many pages.
PAGES = 5


class SyntheticHealth:
    """Health data by day, or in pages where no day is asked for."""

    name = "synthetic-health"

    def __init__(
        self,
        *,
        seed: int = 0,
        latency_s: float = 0.0,
        failure_share: float = 0.0,
        empty_share: float = 0.1,
        poison_days: Collection[date] = (),
    ) -> None:
        """Draw everything from `seed`; shares are between 0 and 1."""
        self._seed = seed
        self._latency_s = latency_s
        self._failure_share = failure_share
        self._empty_share = empty_share
        self._poison_days = frozenset(poison_days)
        #: Reads of each chunk so far: a flaky chunk fails only the first time.
        self._reads: Counter[tuple[str, str]] = Counter()

    async def read(self, ctx: Context) -> Chunk:
        """One day in history mode, else one page."""
        await ctx.clock.sleep(self._latency_s)
        if ctx.mode is Mode.HISTORY:
            assert ctx.day is not None
            return self._day(ctx, ctx.day)
        return self._page(ctx)

    def _day(self, ctx: Context, day: date) -> Chunk:
        draw = self._random(ctx, day.isoformat())
        if day in self._poison_days:
            raise Transient(f"the archive of {day} cannot be read")
        if draw.random() < self._empty_share:
            return Chunk()
        kinds = draw.sample(_KINDS, draw.randint(1, len(_KINDS)))
        return Chunk(
            records=[
                Record(f"{day}:{kind}", {"day": day.isoformat(), "kind": kind, "value": value})
                for kind, value in ((kind, draw.randint(1, 20_000)) for kind in kinds)
            ]
        )

    def _page(self, ctx: Context) -> Chunk:
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        draw = self._random(ctx, f"page {page}")
        records = [
            Record(f"{page}:{place}", {"page": page, "value": draw.randint(1, 20_000)})
            for place in range(10)
        ]
        if ctx.limit is not None:
            records = records[: max(0, ctx.limit - ctx.records)]
        spent = ctx.limit is not None and ctx.records + len(records) >= ctx.limit
        following: Json = None if spent or page + 1 == PAGES else page + 1
        progress = Progress(done=page + 1, total=PAGES, at=f"page {page + 1}")
        return Chunk(records=records, cursor=following, progress=progress)

    def _random(self, ctx: Context, chunk: str) -> Random:
        """Randomness of this chunk's own; raises where its first read is one that fails."""
        draw = Random(f"{self._seed}/{ctx.connection_id}/{chunk}")
        fails = draw.random() < self._failure_share
        self._reads[ctx.connection_id, chunk] += 1
        if fails and self._reads[ctx.connection_id, chunk] == 1:
            raise Transient("the provider is having a moment")
        return draw
