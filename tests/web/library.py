"""An application of a small library on the web: it fetches covers and details of books one by one.

The items are put into the store by hand, with nobody working: their states are what is asked about.
"""

from datetime import UTC, datetime, timedelta

from headgate import ApiSource, App, Budget, Chunk, Collection, Context, Limit, NewItem, Sync
from headgate.model import item as change
from headgate.model.item import Document, Item, ItemChange
from tests.web.callers import on_server
from tests.worlds import as_test

COVERS, DETAILS, LIVE = "library.covers", "library.details", "library-live"
BUDGET = Budget(
    "library",
    [Limit(100, per="15min", only="read", reserve=20), Limit(1000, per="day", reserve=240)],
)
BEGAN = datetime(2025, 12, 30, 6, 30, tzinfo=UTC)
LEASE = timedelta(minutes=5)


class Books(ApiSource):
    """Reads nothing: nobody works here."""

    async def read(self, ctx: Context) -> Chunk:
        """Never called."""
        raise AssertionError("nobody works here")


def library_sync() -> Sync:
    """The sync with both collections."""
    source = Books("library", base_url="https://library.example", title="Library", budget=BUDGET)
    collections = (Collection(name=COVERS, title="Covers"), Collection(name=DETAILS, title="Books"))
    return Sync(name=LIVE, source=source, collections=collections)


with_library = as_test(on_server, library_sync())


async def put(
    app: App, *, user: str = "ada", number: int = 101, collection: str = COVERS, the_id: str = ""
) -> Item:
    """A book's item of that user's, to be fetched."""
    new = NewItem(
        id=the_id or f"{user}-1-{number}",
        collection=collection,
        user_id=user,
        connection_id=f"{user}-1",
        external_id=str(number),
        start_time=BEGAN,
    )
    await app.items.register([new])
    return await app.items.get(new.id)


async def claim(app: App, item: Item) -> Item:
    """The item, claimed by a worker."""
    found = await app.items._store.claim(
        item.collection, item.connection_id, limit=100, lease=LEASE, worker="worker-1"
    )
    others = [each for each in found if each.id != item.id]
    await app.items._store.settle_many([(change.release(each), None) for each in others])
    [claimed] = [each for each in found if each.id == item.id]
    return claimed


async def settle(app: App, wanted: ItemChange, document: Document | None = None) -> Item:
    """The item after that change."""
    [item] = await app.items._store.settle_many([(wanted, document)])
    assert item is not None
    return item


async def stuck(app: App) -> Item:
    """One that has failed for good."""
    item = await claim(app, await put(app))
    return await settle(app, change.fail(item, error="Malformed: no JSON", after=None))
