"""What the API, the page and the command have in common: the articles of a user."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate import App, Item, NotFound

from . import tables
from .syncs import ARTICLES, NAME


class Article(msgspec.Struct, frozen=True, kw_only=True):
    """An article on somebody's list."""

    id: str
    title: str
    state: Annotated[str, Meta(description="Where its text stands; `success` where it is here.")]
    read_at: datetime | None


async def articles_of(
    app: App, user_id: str, *, limit: int, after: str | None = None
) -> list[Article]:
    """Return a user's articles in the order of their ids, after the id `after`."""
    return await describe_articles(
        app, await app.items.list(ARTICLES, user_id=user_id, limit=limit, after=after)
    )


async def find_article(app: App, article_id: str, user_id: str | None) -> Item:
    """Return the item of an article; raises NotFound if it does not exist or is another user's."""
    item = await app.items.get(article_id, user_id=user_id)
    if item.collection != ARTICLES:
        raise NotFound(f"there is no article {article_id!r}")
    return item


async def describe_articles(app: App, items: Sequence[Item]) -> list[Article]:
    """Return the articles of these items, which are of one user."""
    if not items:
        return []
    ids, shelves = [each.id for each in items], sorted({each.connection_id for each in items})
    records = await app.records.find([NAME], shelves, ids)
    titles = {each.key: str(each.data["title"]) for each in records}
    marks = await app.read(lambda tx: tables.marks_of(tx, items[0].user_id, ids))
    return [
        Article(
            id=each.id,
            title=titles.get(each.id, each.id),
            state=each.state.value,
            read_at=marks.get(each.id),
        )
        for each in items
    ]


async def erase(app: App, user_id: str) -> None:
    """Forget what a user has read; articles and titles are the engine's to forget."""
    await app.write(lambda tx: tables.forget(tx, user_id))


async def export(app: App, user_id: str) -> AsyncIterator[dict[str, Any]]:
    """Return what a user has read; articles and titles are the engine's to export."""
    for article_id, read_at in (await app.read(lambda tx: tables.all_marks(tx, user_id))).items():
        yield {"type": "mark", "article_id": article_id, "read_at": read_at.isoformat()}
