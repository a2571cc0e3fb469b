"""The sync: lists what is on a shelf, page by page, then fetches each article once."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

import headgate

from .settings import ReadingListSettings

#: The sync, and the items that it fetches.
NAME, ARTICLES = "reading-list", "shelf.articles"
PER_PAGE = 50
_FETCHING = "fetching"


class Saved(msgspec.Struct):
    """A line of the list, as the service tells it."""

    id: str
    title: str
    saved_at: datetime


class Shelf(headgate.ApiSource):
    """Reads a public shelf; the connection's id is what it is called there."""

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """One page of the list, or a batch of articles: each is a durable checkpoint."""
        if ctx.cursor == _FETCHING:
            fetched = await ctx.items.fetch_due(ctx, ARTICLES, fetch)
            return headgate.Chunk.of_items(fetched, cursor=_FETCHING)
        number = ctx.cursor if isinstance(ctx.cursor, int) else 1
        asked = {"page": number, "per_page": PER_PAGE}
        answer = await ctx.http.get(f"/shelves/{ctx.connection_id}", asked)
        page = answer.json(list[Saved])
        items = [_item(ctx, each) for each in page]
        await ctx.items.register(items)
        titles = [
            headgate.Record(item.id, {"title": saved.title})
            for item, saved in zip(items, page, strict=True)
        ]
        return headgate.Chunk(
            records=titles, cursor=number + 1 if len(page) == PER_PAGE else _FETCHING
        )


async def fetch(ctx: headgate.Context, item: headgate.Item) -> headgate.Document:
    """The text of one article; one that was taken down is unavailable, which is no failure."""
    answer = await ctx.http.get(f"/articles/{item.external_id}", not_found=headgate.NoData)
    return headgate.Document(media_type="text/plain; charset=utf-8", body=answer.body)


def _item(ctx: headgate.Context, saved: Saved) -> headgate.NewItem:
    return headgate.NewItem(
        # Ids are the application's, not the system's: begin them with what nobody else has.
        id=f"shelf-{ctx.connection_id}-{saved.id}",
        collection=ARTICLES,
        user_id=ctx.user_id,
        connection_id=ctx.connection_id,
        external_id=saved.id,
        start_time=saved.saved_at,
    )


def syncs(settings: ReadingListSettings, public_url: str) -> Sequence[headgate.Sync]:
    """The sync that the settings ask for."""
    shelf = Shelf(
        "shelf",
        title="Shelf",
        base_url=f"{settings.shelf_url.rstrip('/')}/v1",
        limits=[headgate.Limit(120, per="min")],
    )
    articles = headgate.Collection(name=ARTICLES, title="Articles", fetched_by=NAME)
    return [headgate.Sync(name=NAME, source=shelf, collections=[articles])]
