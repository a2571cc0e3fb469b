"""The live sync: finds activities, reads new and changed ones in full, and fetches their streams.

A job first lists the athlete's activities, unless an event started it. Then it reads every activity
that is due, whoever registered it, and fetches its streams at once, in the hot lane; the job ends
when nothing is left. So an active job also handles events that arrive while it runs.

While the limiter cannot be reached, lists, details and laps go on with a small local share; streams
stay pending, and the job tries again every half minute.
"""

from datetime import timedelta

import msgspec

from headgate import ApiSource, Chunk, Context, Document, FetchedItems, Item, Lane, Progress
from headgate.connectors.strava import parse_activity, read_activity
from headgate.errors import Retryable
from headgate.systems.activity_streams.backfill import (
    Cursor,
    after_page,
    cursor_of,
    fetch_item,
    progress_of,
)
from headgate.systems.activity_streams.listing import (
    activity_item,
    mark_of_list,
    read_page,
    stream_item,
)
from headgate.systems.activity_streams.names import ACTIVITIES, COLLECTION

#: Listed activities of this age are live: read in full, with streams, in the hot lane. Older ones
#: are history: only the list's fields are stored, and the backfill fetches their streams.
LIVE_SPAN = timedelta(days=7)
#: The wait before failed streams are fetched again; activities are read meanwhile.
AGAIN = timedelta(seconds=60)


class StravaLive(ApiSource):
    """The source of the live sync."""

    async def read(self, ctx: Context) -> Chunk:
        """Read a page of the list, some activities in full, or some of their streams."""
        cursor = cursor_of(ctx)
        if cursor.listing:
            return await self._list(ctx, cursor)
        remembered = msgspec.to_builtins(cursor)
        activities = await ctx.items.fetch_due(ctx, ACTIVITIES, self._read_activity)
        # Commit what was read; the next chunk fetches the streams.
        read = activities.items or activities.error
        streams = _NEXT if read else await self._streams(ctx)
        progress = await _progress(ctx)
        return Chunk.of_items(activities, streams, cursor=remembered, progress=progress)

    async def _streams(self, ctx: Context) -> FetchedItems:
        try:
            return await ctx.items.fetch_due(ctx, COLLECTION, fetch_item, lane=Lane.HOT)
        except Retryable:
            # Strava seems to be down. If it is, reading activities fails too, and opens the
            # breaker.
            return FetchedItems(items=(), wait=AGAIN)

    async def _list(self, ctx: Context, cursor: Cursor) -> Chunk:
        page = await read_page(ctx, cursor.before, cursor.repeated)
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
        following = after_page(page)
        return Chunk(
            records=page.records,
            cursor=msgspec.to_builtins(following),
            progress=progress_of(following, await _progress(ctx)),
            # Of the first page, which has the newest ones.
            high_water=mark_of_list(ctx) if cursor.before is None else None,
        )

    async def _read_activity(self, ctx: Context, item: Item) -> Document:
        found = parse_activity(await read_activity(ctx.http, str(item.external_id)))
        # Register the streams before the activity counts as read, so that a crash loses nothing.
        await ctx.items.register([stream_item(ctx, found, Lane.HOT)])
        return Document.of_json(found.data)


async def _progress(ctx: Context) -> Progress:
    """Return how many of the activities and streams that are live for this job are done."""
    return await ctx.items.progress(ACTIVITIES, COLLECTION, lane=Lane.HOT, of_job=True)


#: Makes the next chunk follow at once.
_NEXT = FetchedItems(items=(), wait=timedelta(0))
