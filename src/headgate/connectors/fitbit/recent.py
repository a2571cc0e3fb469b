"""The source that reads a person's recent days from Fitbit, again and again.

Wearables deliver late: a watch may be synced days after the exercise, and a day's totals change
until the day is over. So every job reads the last few days anew. If the last job was longer ago, a
job in mode `since` begins where that one ended.
"""

from datetime import date, timedelta
from typing import Unpack

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import InvalidInput, Malformed, Terminal
from headgate.connectors.fitbit.api import FitbitArguments
from headgate.connectors.fitbit.days import read_days
from headgate.connectors.http.source import ApiSource
from headgate.model.job import Mode, Progress
from headgate.model.record import ChunkEvent
from headgate.model.states import ReceiptState
from headgate.ports.connector import Chunk, Context

#: The days of one chunk; Google sums up at most 14 in one request.
CHUNK_DAYS = 7
#: The most days that a job reads; what is older is for a backfill.
DAYS_MAX = 30
#: The event of a job whose last one was longer ago than that.
DAYS_LEFT_OUT = "days_left_out"

_DAY = timedelta(days=1)
#: An exercise that Strava refused is not sent again every few minutes.
_SETTLED = frozenset({ReceiptState.TAKEN, ReceiptState.REFUSED})


class _Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The days that are left to read, and the mark to store at the end; the cursor of a job."""

    first: date
    last: date
    total: int
    #: None: the job was told which days to read, and may have left out some before them.
    mark: date | None


class FitbitRecent(ApiSource):
    """The source: each chunk is up to a week, the newest days first."""

    def __init__(self, *, days: int, **api: Unpack[FitbitArguments]) -> None:
        """Read the last so many days, today included."""
        if not 1 <= days <= DAYS_MAX:
            raise InvalidInput("days", f"must be between 1 and {DAYS_MAX}")
        super().__init__(**api)
        self._days = days

    async def read(self, ctx: Context) -> Chunk:
        """Return the records of the newest days that are left."""
        span, events = self._first_span(ctx) if ctx.cursor is None else (_parse(ctx.cursor), ())
        first = max(span.first, span.last - (CHUNK_DAYS - 1) * _DAY)
        chunk = await read_days(ctx, first, span.last, but=_SETTLED)
        left = (first - span.first).days
        rest = msgspec.structs.replace(span, last=first - _DAY)
        return msgspec.structs.replace(
            chunk,
            events=events,
            cursor=msgspec.to_builtins(rest) if left else None,
            high_water=None if left or span.mark is None else str(span.mark),
            progress=Progress(done=span.total - left, total=span.total, at=str(first)),
        )

    def _first_span(self, ctx: Context) -> tuple[_Span, tuple[ChunkEvent, ...]]:
        if ctx.mode not in (Mode.FULL, Mode.SINCE):
            raise Terminal("recent days of Fitbit are read in mode full or since")
        today = ctx.clock.now().date()
        wanted = self._first_day(ctx, today)
        first = max(wanted, today - (DAYS_MAX - 1) * _DAY)
        # The day has begun already for people who live east of Greenwich.
        last = today + _DAY
        left_out = {"first": str(wanted), "last": str(first - _DAY)}
        events = (ChunkEvent(DAYS_LEFT_OUT, left_out),) if wanted < first else ()
        goes_on = ctx.mode is Mode.SINCE and ctx.since is None
        total = (last - first).days + 1
        return _Span(first, last, total, today if goes_on else None), events

    def _first_day(self, ctx: Context, today: date) -> date:
        recent = today - (self._days - 1) * _DAY
        if ctx.since is not None:
            return min(today, ctx.since.date())
        if ctx.high_water is None:
            return recent
        # What was synced late may lie as far before the mark as before today.
        return min(recent, _parse_day(ctx.high_water) - (self._days - 1) * _DAY)


def _parse(cursor: Json) -> _Span:
    try:
        return msgspec.convert(cursor, _Span)
    except msgspec.ValidationError as error:
        raise Malformed(f"the stored cursor cannot be read: {error}") from None


def _parse_day(mark: Json) -> date:
    try:
        return msgspec.convert(mark, date)
    except msgspec.ValidationError as error:
        raise Malformed(f"the stored high-water mark cannot be read: {error}") from None
