"""The live sync: finds activities, reads new and changed ones in full, and fetches their streams.

A job first lists what the athlete has, unless it was started by an event. Then it works through the
activities that are to be read, whoever noted them, and fetches the streams of each at once; only
when nothing is left does it end. So an event that comes in while a job is active is seen to by it.

While the limiter is away, lists, details and laps go on by a small local share; streams stay
pending, and the job looks again every half minute.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from headgate import ApiSource, Chunk, Context, Lane, Retryable, SourceError
from headgate.connectors.strava.activities import listed, read_activity
from headgate.connectors.strava.streams import fetch_streams
from headgate.model.item import Document, Item
from headgate.model.states import ItemState
from headgate.ports.items import Fetched
from headgate.systems.activity_streams.listing import activity_item, read_page, stream_item
from headgate.systems.activity_streams.names import ACTIVITIES, activity_id
from headgate.systems.activity_streams.watching import Watch

#: Of what a list brings, this is live: read in full, with streams, in the hot lane. What is older
#: is history: only what the list says of it is kept, and its streams are the backfill's.
LIVE_SPAN = timedelta(days=7)
#: Activities in one chunk: twenty requests, or ten streams.
BATCH = 10
#: While something waits, an event that comes meanwhile is seen to within this time.
LOOK = timedelta(seconds=30)
#: Streams that were expected and are not to be had are asked for again after this, and so often.
AGAIN = timedelta(seconds=60)
ASKS_MAX = 3


class Wanted(msgspec.Struct, frozen=True):
    """Streams that this job is to fetch."""

    due: datetime
    #: How often to ask for them once more, where they are not to be had; None: it is not known yet
    #: whether this job has tried them.
    asks: int | None = None


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a job stands."""

    listing: bool = False
    #: The list goes on before this moment.
    before: datetime | None = None
    #: By the activity's id.
    streams: dict[str, Wanted] = {}
    watch: Watch = Watch()

    def due(self, now: datetime) -> list[str]:
        """The streams to fetch now."""
        return [each for each, wanted in self.streams.items() if wanted.due <= now][:BATCH]

    def with_streams(self, ids: Iterable[str], now: datetime) -> "Cursor":
        """With more streams to fetch at once."""
        return msgspec.structs.replace(
            self, streams={**self.streams, **{each: Wanted(now) for each in ids}}
        )

    def asked(self, due: Sequence[str], found: Sequence[Item], now: datetime) -> "Cursor":
        """After those were asked for, and these were had or seen with others: what still waits."""
        streams = {each: wanted for each, wanted in self.streams.items() if each not in due}
        seen = {item.id: _again(item, now) for item in found}
        for each in due:
            again = seen.get(each)
            asks = self._asks(each, now)
            if again is not None:
                streams[each] = Wanted(again, ASKS_MAX)
            elif each not in seen and asks:
                streams[each] = Wanted(now + AGAIN, asks - 1)
        return msgspec.structs.replace(self, streams=streams)

    def _asks(self, activity_id: str, now: datetime) -> int:
        """How often to ask once more for what is not to be had.

        It was fetched, or tried in vain. But it may be this job that has tried, with a worker that
        was lost before it could say so.
        """
        asks = self.streams[activity_id].asks
        if asks is not None:
            return asks
        doubtful = self.watch.until is not None and self.watch.until > now
        return ASKS_MAX if doubtful else 0

    def failed(self, due: Sequence[str], now: datetime) -> "Cursor":
        """After those were asked for in vain: each has its own time to be tried again."""
        put_off = {each: Wanted(now + AGAIN, ASKS_MAX) for each in due}
        return msgspec.structs.replace(self, streams={**self.streams, **put_off})


class StravaLive(ApiSource):
    """Reads what is new."""

    async def read(self, ctx: Context) -> Chunk:
        """A page of the list, some activities in full, or some of their streams."""
        before = _cursor(ctx)
        cursor = msgspec.structs.replace(before, watch=before.watch.looked(ctx))
        if cursor.listing:
            return await self._list(ctx, cursor)
        ids, fetched = await self._read_due(ctx)
        if fetched is None or fetched.items or fetched.next_due_s == 0:
            return _worked(ctx, cursor.with_streams(ids, ctx.clock.now()))
        due = cursor.due(ctx.clock.now())
        if due:
            return await self._fetch_due(ctx, cursor, due)
        waiting = [wanted.due for wanted in cursor.streams.values()]
        if fetched.next_due_s is not None:
            waiting.append(ctx.clock.now() + timedelta(seconds=fetched.next_due_s))
        if cursor.watch != before.watch:
            # Remembered before the job rests, else it would doubt again and again.
            return _chunk(cursor)
        cursor.watch.rest(ctx, waiting, longest=LOOK)
        return Chunk()

    async def _list(self, ctx: Context, cursor: Cursor) -> Chunk:
        page = await read_page(ctx, cursor.before)
        now = ctx.clock.now()
        live = [each for each in page.found if each.start >= now - LIVE_SPAN]
        history = [each for each in page.found if each.start < now - LIVE_SPAN]
        await ctx.items.register(
            [
                *(activity_item(ctx, each) for each in live),
                *(stream_item(ctx, each, Lane.HOT) for each in live),
                *(stream_item(ctx, each, Lane.COLD) for each in history),
            ]
        )
        ids = [activity_id(ctx.connection_id, each.id) for each in live if each.streams_id]
        following = msgspec.structs.replace(
            cursor, listing=page.before is not None, before=page.before
        )
        listed = _worked(ctx, following.with_streams(ids, now))
        return msgspec.structs.replace(listed, records=page.records)

    async def _read_due(self, ctx: Context) -> tuple[list[str], Fetched | None]:
        """Read activities that are due, whoever noted them: which have streams to fetch.

        None says that something ended it after some were read. They are to be remembered first;
        what it was is met again, and told then.
        """
        ids: list[str] = []

        async def fetch(ctx: Context, item: Item) -> Document:
            found = listed(await read_activity(ctx.http, str(item.external_id)))
            # Noted before the activity counts as read: whatever happens then, it is not lost.
            await ctx.items.register([stream_item(ctx, found, Lane.HOT)])
            if found.streams_id is not None:
                ids.append(activity_id(ctx.connection_id, found.id))
            return Document.of_json(found.data)

        try:
            return ids, await ctx.items.fetch_due(ctx, ACTIVITIES, fetch, limit=BATCH)
        except SourceError:
            if not ids:
                raise
            return ids, None

    async def _fetch_due(self, ctx: Context, cursor: Cursor, due: Sequence[str]) -> Chunk:
        try:
            found = await ctx.items.fetch_these(ctx, due, self._streams)
        except Retryable:
            # Strava is down, it seems; the activities themselves would tell the breaker.
            return _worked(ctx, cursor.failed(due, ctx.clock.now()))
        return _worked(ctx, cursor.asked(due, found, ctx.clock.now()))

    async def _streams(self, ctx: Context, item: Item) -> Document:
        return await fetch_streams(ctx.http, str(item.external_id))


def _again(item: Item, now: datetime) -> datetime | None:
    """When to ask for its streams again; None where they are here, or not to be had."""
    if item.state is ItemState.FETCHING:
        # Backfill has it, and may have to give it back; or a worker has it that is lost.
        return now + AGAIN
    # The store decides by its own clock: to ask at once might be in vain, again and again.
    return None if item.next_attempt_at is None else max(item.next_attempt_at, now + AGAIN)


def _cursor(ctx: Context) -> Cursor:
    if ctx.cursor is not None:
        return msgspec.convert(ctx.cursor, Cursor)
    # What an event is about was noted already; everything else must be looked for.
    return Cursor(listing=ctx.options.get("listing") is not False, watch=Watch.begun(ctx))


def _worked(ctx: Context, cursor: Cursor) -> Chunk:
    return _chunk(msgspec.structs.replace(cursor, watch=cursor.watch.worked(ctx)))


def _chunk(cursor: Cursor) -> Chunk:
    return Chunk(cursor=msgspec.to_builtins(cursor))
