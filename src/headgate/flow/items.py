"""What an application does with items: register, find, serve, reset and count them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from headgate.base.errors import InvalidInput
from headgate.flow.ensure import ensure
from headgate.flow.fetch_item import reset_item
from headgate.flow.jobs import LIST_MAX
from headgate.flow.registry import Collection
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest
from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.ports.items import ItemStore, NewItem, RegisterResult, ServedItem, StoredDocument

_DAY = timedelta(hours=24)
_NOW = timedelta(0)


class ItemStats(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one collection."""

    name: str
    title: str
    #: How many are in each state, zero included.
    states: Mapping[ItemState, int]
    #: Of the failed: how many have failed so often.
    retries: Mapping[int, int]
    #: Failed for good, until they are reset.
    stuck: int
    #: Refused by the provider's limit (429) in the last 24 hours.
    limited_24h: int
    #: How many of one user's are in each state, where a user was named.
    of_user: Mapping[ItemState, int] | None


class Items:
    """The items of an application. Where a user is named, another's are NotFound."""

    def __init__(self, rt: Runtime) -> None:
        """Of the collections that `rt` knows."""
        self._rt = rt

    @property
    def _store(self) -> ItemStore:
        return self._rt.fetching.items

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Note things that are to be fetched; known ones stay as they are."""
        return await self._store.register(found)

    async def get(self, item_id: str, *, user_id: str | None = None) -> Item:
        """The item."""
        return await self._store.get(item_id, user_id=user_id)

    async def list(
        self,
        collection: str | None = None,
        *,
        user_id: str | None = None,
        states: Sequence[ItemState] = (),
        limit: int = 50,
        after: str | None = None,
    ) -> Sequence[Item]:
        """Items in the order of their ids, those after the id `after`.

        A collection that is not declared, and of which there is nothing, is InvalidInput.
        """
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        found = await self._store.list_items(
            collection, user_id=user_id, states=states, limit=limit, after=after
        )
        # Looked for first: a database may hold items of what this application does not declare.
        if collection is not None and not found and after is None:
            self._declared(collection)
        return found

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """The item with what was fetched for it, by one statement."""
        return await self._store.serve(item_id, user_id=user_id)

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """What was fetched for these items."""
        return await self._store.documents_of(item_ids)

    async def forget(self, item_ids: Sequence[str]) -> int:
        """Delete items with what was fetched for them; how many there were."""
        return await self._store.forget_items(item_ids)

    async def reset(
        self,
        item_id: str,
        *,
        user_id: str | None = None,
        after: timedelta = _NOW,
        fetch: bool = True,
    ) -> Item:
        """Start an item afresh, at once or after a while; whoever has claimed it is shut out.

        A job that fetches it is asked for too, where its collection says of which sync, unless
        `fetch` says that the caller sees to that.
        """
        item = await self.get(item_id, user_id=user_id)
        reset = await reset_item(self._store, item.id, after=after)
        collection = self._rt.registry.collections.get(item.collection)
        if fetch and collection is not None and collection.fetched_by is not None:
            wanted = JobRequest(
                sync=collection.fetched_by,
                user_id=item.user_id,
                connection_id=item.connection_id,
                options=collection.fetch_options,
            )
            await ensure(self._rt, wanted)
        return reset

    async def stats(self, collection: str, *, user_id: str | None = None) -> ItemStats:
        """How the collection's items stand; with a user, that user's too."""
        return await item_stats(self._store, self._declared(collection), user_id=user_id)

    def _declared(self, name: str) -> Collection:
        """The collection of that name, or InvalidInput with the names there are."""
        declared = self._rt.registry.collections
        if name not in declared:
            there_are = ", ".join(sorted(declared)) or "none"
            raise InvalidInput("collection", f"{name!r} is not declared; there are: {there_are}")
        return declared[name]


async def item_stats(
    items: ItemStore, collection: Collection, *, user_id: str | None = None
) -> ItemStats:
    """The numbers of a collection, from the store."""
    name = collection.name
    counted = await items.count_items(name)
    return ItemStats(
        name=name,
        title=collection.title,
        states=counted.states,
        retries=counted.retries,
        stuck=await items.count_stuck(name),
        limited_24h=await items.count_limited(name, within=_DAY),
        of_user=None if user_id is None else await items.progress(name, user_id),
    )
