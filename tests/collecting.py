"""A neutral application of two collections, whose users hand over a token."""

from datetime import timedelta
from typing import Any

from headgate import ApiSource, App, Chunk, Collection, Context, Item, NewItem, Secret, Sync
from headgate.connectors import ApiToken
from headgate.model import item as change
from headgate.types import Connection
from tests.worlds import START

ATTACHMENTS = Collection(
    name="notes.attachments", title="Attachments", fetched_by="notes", fetch_options={"only": "a"}
)
COMMENTS = Collection(name="notes.comments", title="Comments")
TOKEN = "c4nary-h4nded-0ver"


class Notes(ApiSource):
    """Reads nothing: what is fetched one by one is put there by the tests."""

    async def read(self, ctx: Context) -> Chunk:
        """Nothing."""
        return Chunk()


def notes_sync() -> Sync:
    """A sync that fetches the items of both collections."""
    source = Notes("notes", base_url="https://notes.example", auth=ApiToken())
    return Sync(name="notes", source=source, collections=[ATTACHMENTS, COMMENTS])


async def connect(app: App, user_id: str = "ada") -> Connection:
    """An account of that user's."""
    return await app.connections.connect_with_token(
        "notes", Secret(TOKEN), user_id=user_id, external_id=f"notes of {user_id}"
    )


async def put(
    app: App, the_id: str, collection: Collection = ATTACHMENTS, **fields: Any
) -> NewItem:
    """An item in line."""
    given: dict[str, Any] = {
        "id": the_id,
        "collection": collection.name,
        "user_id": "ada",
        "connection_id": "ada",
        "external_id": f"external {the_id}",
        "start_time": START,
    }
    new = NewItem(**{**given, **fields})
    await app.items.register([new])
    return new


async def stuck(app: App, the_id: str, collection: Collection = ATTACHMENTS, **fields: Any) -> Item:
    """An item that has failed for good."""
    new = await put(app, the_id, collection, **fields)
    store = app.items._store
    [claimed] = await store.claim(
        new.collection, new.connection_id, limit=1, lease=timedelta(minutes=1), worker="w"
    )
    assert claimed.id == the_id
    failed = await store.settle(change.fail(claimed, error="Malformed: no JSON", after=None))
    assert failed is not None
    return failed
