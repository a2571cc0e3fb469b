"""The streams sync: fetches the streams that are missing, batch by batch in the cold lane.

Each chunk fetches a batch of streams one by one: those that were reset first, then the oldest. When
the budget yields to live work or is spent, the job sleeps, and claims nothing meanwhile. While
items wait for a retry, the job waits for them; when none are left, the job is done.
"""

from datetime import datetime

import msgspec

from headgate import ApiSource, Chunk, Context, Document, Item, Lane, Progress
from headgate.connectors.strava import fetch_streams
from headgate.systems.activity_streams.listing import ActivityListing, read_page, stream_item
from headgate.systems.activity_streams.names import COLLECTION


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cursor of a job."""

    listing: bool = False
    #: The next page of the list ends before this time, and has these activities again.
    before: datetime | None = None
    repeated: tuple[int, ...] = ()


class StravaStreams(ApiSource):
    """The source of the streams sync."""

    async def read(self, ctx: Context) -> Chunk:
        """Read a page of the list, or fetch a batch of streams."""
        cursor = cursor_of(ctx)
        remembered = msgspec.to_builtins(cursor)
        if ctx.cursor is None:
            # Count before anything is requested: the first request may have to wait for long.
            known = progress_of(cursor, await ctx.items.progress(COLLECTION))
            return Chunk(cursor=remembered, progress=known)
        if cursor.listing:
            return await self._list(ctx, cursor)
        fetched = await ctx.items.fetch_due(ctx, COLLECTION, fetch_item)
        progress = await ctx.items.progress(COLLECTION)
        return Chunk.of_items(fetched, cursor=remembered, progress=progress)

    async def _list(self, ctx: Context, cursor: Cursor) -> Chunk:
        page = await read_page(ctx, cursor.before, cursor.repeated)
        await ctx.items.register([stream_item(ctx, each, Lane.COLD) for each in page.found])
        following = after_page(page)
        return Chunk(
            records=page.records,
            cursor=msgspec.to_builtins(following),
            progress=progress_of(following, await ctx.items.progress(COLLECTION)),
        )


async def fetch_item(ctx: Context, item: Item) -> Document:
    """Fetch the streams of one activity."""
    return await fetch_streams(ctx.http, str(item.external_id))


def cursor_of(ctx: Context) -> Cursor:
    """Return the job's cursor; a new job lists first, unless its options say otherwise."""
    if ctx.cursor is not None:
        return msgspec.convert(ctx.cursor, Cursor)
    return Cursor(listing=ctx.options.get("listing") is not False)


def after_page(page: ActivityListing) -> Cursor:
    """Return the cursor after a page of the list."""
    return Cursor(listing=page.before is not None, before=page.before, repeated=page.repeated)


def progress_of(cursor: Cursor, known: Progress) -> Progress:
    """Return the progress at the cursor, where these items are known.

    While they are listed, the total may grow; if nothing is left of what is known, there is none.
    """
    if not cursor.listing:
        return known
    total = None if known.done == known.total else known.total
    return msgspec.structs.replace(known, total=total, at="listing")
