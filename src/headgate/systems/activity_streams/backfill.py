"""The streams sync: whatever has no streams yet, batch by batch in the cold lane.

Each chunk claims a batch and fetches its streams one by one, those that somebody asked for first,
then the oldest. Where the budget yields to live work or ends, the batch gives back what it has not
tried before the job goes to sleep. While some wait to be tried again the job waits with them; when
none does, it is done.
"""

from datetime import datetime, timedelta

import msgspec

from headgate import (
    ApiSource,
    BudgetSpent,
    Chunk,
    Context,
    Lane,
    Progress,
    RateLimited,
    SourceError,
)
from headgate.connectors.strava.streams import fetch_streams
from headgate.model.item import Document, Item
from headgate.ports.items import Fetched
from headgate.systems.activity_streams.listing import read_page, stream_item
from headgate.systems.activity_streams.names import COLLECTION
from headgate.systems.activity_streams.watching import Watch

#: Streams in one chunk: at the pace of backfill, about two minutes. A worker that dies loses all of
#: them, and each counts it; more would make that likelier, and save only a write in two minutes.
BATCH = 10
#: What waits for longer than this is looked at meanwhile: others may bring more.
LOOK = timedelta(minutes=15)


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a job stands."""

    listing: bool = False
    #: The list goes on before this moment.
    before: datetime | None = None
    #: How many activities the list had that were not known.
    found: int = 0
    #: How many have come to their end in this job.
    ended: int = 0
    #: The budget is spent until then.
    spent_until: datetime | None = None
    watch: Watch = Watch()


class StravaStreams(ApiSource):
    """Fetches streams."""

    async def read(self, ctx: Context) -> Chunk:
        """A page of the list, or a batch of streams."""
        before = _cursor(ctx)
        cursor = msgspec.structs.replace(before, watch=before.watch.looked(ctx))
        if cursor.listing:
            return await self._list(ctx, cursor)
        if cursor.spent_until is not None and cursor.spent_until > ctx.clock.now():
            raise BudgetSpent(cursor.spent_until - ctx.clock.now())
        fetched = await self._fetch(ctx, cursor)
        if isinstance(fetched, Chunk):
            return fetched
        if fetched.items or fetched.next_due_s == 0:
            over = sum(item.next_attempt_at is None for item in fetched.items)
            return _worked(ctx, cursor, over)
        waiting = []
        if fetched.next_due_s is not None:
            waiting.append(ctx.clock.now() + timedelta(seconds=fetched.next_due_s))
        if cursor.watch != before.watch:
            # Remembered before the job rests, else it would doubt again and again.
            return _chunk(ctx, cursor)
        cursor.watch.rest(ctx, waiting, longest=LOOK)
        return Chunk(progress=_progress(ctx, cursor))

    async def _fetch(self, ctx: Context, cursor: Cursor) -> Fetched | Chunk:
        """A batch. Where something ends it early, what was fetched is counted in a chunk first."""
        ended = 0

        async def fetch(ctx: Context, item: Item) -> Document:
            nonlocal ended
            document = await fetch_streams(ctx.http, str(item.external_id))
            ended += 1
            return document

        try:
            return await ctx.items.fetch_due(ctx, COLLECTION, fetch, limit=BATCH)
        except SourceError as error:
            if not ended:
                raise
            # The next chunk waits for the budget without a claim; anything else it meets again.
            until = ctx.clock.now() + error.after if isinstance(error, RateLimited) else None
            return _worked(ctx, msgspec.structs.replace(cursor, spent_until=until), ended)

    async def _list(self, ctx: Context, cursor: Cursor) -> Chunk:
        page = await read_page(ctx, cursor.before)
        noted = await ctx.items.register([stream_item(ctx, each, Lane.COLD) for each in page.found])
        following = msgspec.structs.replace(
            cursor,
            listing=page.before is not None,
            before=page.before,
            found=cursor.found + noted.created,
        )
        return msgspec.structs.replace(_worked(ctx, following, 0), records=page.records)


def _cursor(ctx: Context) -> Cursor:
    if ctx.cursor is not None:
        return msgspec.convert(ctx.cursor, Cursor)
    return Cursor(listing=ctx.options.get("listing") is not False, watch=Watch.begun(ctx))


def _worked(ctx: Context, cursor: Cursor, ended: int) -> Chunk:
    following = msgspec.structs.replace(
        cursor, ended=cursor.ended + ended, watch=cursor.watch.worked(ctx)
    )
    return _chunk(ctx, following)


def _chunk(ctx: Context, cursor: Cursor) -> Chunk:
    return Chunk(cursor=msgspec.to_builtins(cursor), progress=_progress(ctx, cursor))


def _progress(ctx: Context, cursor: Cursor) -> Progress:
    """Of all that the athlete has; what was known when the job was submitted is in its options."""
    known, ended = _number(ctx, "known"), _number(ctx, "ended")
    total = known + cursor.found or None
    # What live work has fetched meanwhile is not counted here, until the job is done.
    done = ended + cursor.ended if total is None else min(ended + cursor.ended, total)
    if cursor.listing:
        return Progress(done=done, at="listing")
    return Progress(done=done, total=total)


def _number(ctx: Context, name: str) -> int:
    value = ctx.options.get(name)
    return value if isinstance(value, int) else 0
