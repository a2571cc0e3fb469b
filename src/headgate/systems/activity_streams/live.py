"""The live sync: finds activities, reads new and changed ones in full, and fetches their streams.

A job first lists what the athlete has, unless it was started by an event. Then it works through the
activities that are to be read, whoever noted them, and fetches the streams of each at once, by the
hot lane of their items; only when nothing is left does it end. So an event that comes in while a
job is active is seen to by it.

While the limiter is away, lists, details and laps go on by a small local share; streams stay
pending, and the job looks again every half minute.
"""

from datetime import timedelta

import msgspec

from headgate import ApiSource, Chunk, Context, Document, FetchedItems, Item, Lane, Retryable
from headgate.connectors.strava.activities import parse_activity, read_activity
from headgate.systems.activity_streams.backfill import Cursor, after_page, cursor_of, fetch_item
from headgate.systems.activity_streams.listing import activity_item, read_page, stream_item
from headgate.systems.activity_streams.names import ACTIVITIES, COLLECTION

#: Of what a list brings, this is live: read in full, with streams, in the hot lane. What is older
#: is history: only what the list says of it is kept, and its streams are the backfill's.
LIVE_SPAN = timedelta(days=7)
#: Streams that Strava could not give are asked for again after this; activities are read meanwhile.
AGAIN = timedelta(seconds=60)


class StravaLive(ApiSource):
    """Reads what is new."""

    async def read(self, ctx: Context) -> Chunk:
        """A page of the list, some activities in full, or some of their streams."""
        cursor = cursor_of(ctx)
        if cursor.listing:
            return await self._list(ctx, cursor)
        remembered = msgspec.to_builtins(cursor)
        activities = await ctx.items.fetch_due(ctx, ACTIVITIES, self._read_activity)
        if activities.items or activities.error:
            # Their streams come next; what was read is remembered first.
            return Chunk.of_items(activities, _NEXT, cursor=remembered)
        return Chunk.of_items(activities, await self._streams(ctx), cursor=remembered)

    async def _streams(self, ctx: Context) -> FetchedItems:
        try:
            return await ctx.items.fetch_due(ctx, COLLECTION, fetch_item, lane=Lane.HOT)
        except Retryable:
            # Strava is down, it seems; the activities themselves would tell the breaker.
            return FetchedItems(items=(), wait=AGAIN)

    async def _list(self, ctx: Context, cursor: Cursor) -> Chunk:
        page = await read_page(ctx, cursor.before)
        oldest = ctx.clock.now() - LIVE_SPAN
        live = [each for each in page.found if each.start >= oldest]
        history = [each for each in page.found if each.start < oldest]
        await ctx.items.register(
            [
                *(activity_item(ctx, each) for each in live),
                *(stream_item(ctx, each, Lane.HOT) for each in live),
                *(stream_item(ctx, each, Lane.COLD) for each in history),
            ]
        )
        return Chunk(records=page.records, cursor=msgspec.to_builtins(after_page(page.before)))

    async def _read_activity(self, ctx: Context, item: Item) -> Document:
        found = parse_activity(await read_activity(ctx.http, str(item.external_id)))
        # Noted before the activity counts as read: whatever happens then, it is not lost.
        await ctx.items.register([stream_item(ctx, found, Lane.HOT)])
        return Document.of_json(found.data)


#: There is more to do at once.
_NEXT = FetchedItems(items=(), wait=timedelta(0))
