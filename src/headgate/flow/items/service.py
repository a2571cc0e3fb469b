"""The items of an application: registering, finding, serving, resetting and counting them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from headgate.base.errors import InvalidInput, NotConnected
from headgate.flow.items.fetch import reset_item
from headgate.flow.jobs.ensure import ensure
from headgate.flow.jobs.service import LIST_MAX
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Collection, Sync, auth_of, title_of
from headgate.flow.runtime import Runtime
from headgate.model.item import Item
from headgate.model.lease import AT_ONCE
from headgate.model.states import ConnectionState, ItemState
from headgate.ports.items import (
    Deletion,
    ItemStore,
    NewItem,
    RegisterResult,
    ServedItem,
    StoredDocument,
)

_DAY = timedelta(hours=24)


class ItemStats(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one collection's items."""

    name: str
    title: str
    #: The number of items in each state, zero included.
    states: Mapping[ItemState, int]
    #: Failed items, by the number of their failures.
    retries: Mapping[int, int]
    #: Items that failed for good, until they are reset.
    stuck: int
    #: Items that the provider's rate limit (429) refused in the last 24 hours.
    limited_24h: int
    #: The number of the user's items in each state, if a user was named.
    of_user: Mapping[ItemState, int] | None


class Items:
    """The items of an application. With a `user_id`, another user's items are NotFound."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    @property
    def _store(self) -> ItemStore:
        assert self._rt.items is not None, "an application without items has no such facade"
        return self._rt.items

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Register items to fetch; items that are registered already stay as they are."""
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
        """Items in the order of their ids, after the id `after`.

        Raises InvalidInput for a collection that is neither declared nor has items.
        """
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        found = await self._store.list_items(
            collection, user_id=user_id, states=states, limit=limit, after=after
        )
        # Checked after the query: the database may have items of another application's collection.
        if collection is not None and not found and after is None:
            self._declared(collection)
        return found

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """The item with its document, in one statement."""
        return await self._store.serve(item_id, user_id=user_id)

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """The documents of these items."""
        return await self._store.documents_of(item_ids)

    async def delete(
        self,
        item_ids: Sequence[str],
        *,
        connection_id: str,
        syncs: Sequence[str] = (),
        keys: Sequence[str] = (),
    ) -> int:
        """Delete what the provider has deleted, in one write; returns how many there were.

        These are a connection's items with their documents, and the records of `syncs` under
        `keys`. They stay deleted: for a day, a job that read one of them before does not bring it
        back.
        """
        registry = self._rt.registry
        stored_as = sorted({registry.records_name(sync) for sync in syncs})
        deletion = Deletion(
            connection_id=connection_id,
            item_ids=item_ids,
            stored_as=stored_as,
            keys=keys,
            syncs=[each.name for each in registry if each.records_name in stored_as],
        )
        return await self._store.delete(deletion)

    async def reset(
        self,
        item_id: str,
        *,
        user_id: str | None = None,
        after: timedelta = AT_ONCE,
        fetch: bool = True,
    ) -> Item:
        """Reset an item, so that it is fetched at once or after a while; any claim on it ends.

        With `fetch`, it also ensures a job of the sync that fetches the collection, and wakes one
        that sleeps, unless it waits for its provider. Raises NotConnected if the user has to sign
        in again first.
        """
        item = await self.get(item_id, user_id=user_id)
        collection = self._rt.registry.collections.get(item.collection)
        if not fetch or collection is None or collection.fetched_by is None:
            return await reset_item(self._store, item.id, after=after)
        await self._check_signed_in(item, self._rt.registry.get(collection.fetched_by))
        reset = await reset_item(self._store, item.id, after=after)
        job_request = JobRequest(
            sync=collection.fetched_by,
            user_id=item.user_id,
            connection_id=item.connection_id,
            options=collection.fetch_options,
        )
        await ensure(self._rt, job_request, at_once=True)
        return reset

    async def _check_signed_in(self, item: Item, sync: Sync) -> None:
        source = sync.source
        if auth_of(source) is None:
            return
        found = await self._rt.connections.get(item.connection_id, user_id=item.user_id)
        if found.state is ConnectionState.NEEDS_REAUTH:
            raise NotConnected(
                source.name, f"{title_of(source)} needs the user to sign in again first"
            )

    async def stats(self, collection: str, *, user_id: str | None = None) -> ItemStats:
        """The counts of the collection's items; with a user, also of that user's items."""
        return await item_stats(self._store, self._declared(collection), user_id=user_id)

    def _declared(self, name: str) -> Collection:
        """The declared collection; InvalidInput, with the names of all, if there is none."""
        declared = self._rt.registry.collections
        if name not in declared:
            names = ", ".join(sorted(declared)) or "none"
            raise InvalidInput("collection", f"{name!r} is not declared; there are: {names}")
        return declared[name]


async def item_stats(
    items: ItemStore, collection: Collection, *, user_id: str | None = None
) -> ItemStats:
    """The counts of a collection's items, from the store."""
    name = collection.name
    counts = await items.count_items(name)
    return ItemStats(
        name=name,
        title=collection.title,
        states=counts.states,
        retries=counts.retries,
        stuck=await items.count_stuck(name),
        limited_24h=await items.count_limited(name, within=_DAY),
        of_user=None if user_id is None else await items.progress(name, user_id),
    )
