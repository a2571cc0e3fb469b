"""The `ItemStore` port on DynamoDB.

Counts read the rows that they count: an operator's question, not for every page of a site.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta

from headgate.base.errors import NotFound, StoreUnavailable
from headgate.model.item import Item as ItemRow
from headgate.model.job import Lane
from headgate.model.states import ITEM, ItemState
from headgate.ports.items import Deletion, ItemCounts, ItemProgress, ServedItem, StoredDocument
from headgate.store.deletions import REMOVALS_KEPT, TOMBSTONES_KEPT
from headgate.store.dynamodb import documents, keys
from headgate.store.dynamodb.at_once import gather
from headgate.store.dynamodb.attributes import Item, Key, key_of
from headgate.store.dynamodb.catalogue import iterate
from headgate.store.dynamodb.connection_items import REMOVED
from headgate.store.dynamodb.definition import BY_SYNC, BY_USER, TTL, index_keys
from headgate.store.dynamodb.item_leases import KIND
from headgate.store.dynamodb.item_register import ItemRegister
from headgate.store.dynamodb.keys import time_text
from headgate.store.dynamodb.table import KeyRange
from headgate.store.dynamodb.writes import Delete, Update, set_and_remove

#: How often a document is read that is being replaced.
READS_MAX = 5
#: The most items of a connection or user that are counted.
COUNTED_MAX = 1_000_000


class DynamoItems(ItemRegister):
    """Items and their documents in DynamoDB."""

    # ---- documents -----------------------------------------------------------------------------

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """The item with its document, by one query of its partition."""
        for _ in range(READS_MAX):
            row, document = await self._read(item_id)
            if row is None or (user_id is not None and row["user_id"] != user_id):
                raise NotFound(f"there is no item {item_id!r}")
            item = self.codec.from_item(row)
            # An item that is fetched again keeps its old document, but it is not served.
            if item.state is not ItemState.SUCCESS:
                return ServedItem(item, None)
            if document is not None:
                return ServedItem(item, document)
        raise StoreUnavailable(f"the document of the item {item_id!r} keeps changing")

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """The last document of each of these items, whatever state they are in."""
        found = await gather(self._read(each) for each in dict.fromkeys(item_ids))
        return [document for _, document in found if document is not None]

    async def _read(self, item_id: str) -> tuple[Item | None, StoredDocument | None]:
        """The row of an item, and its last document.

        The row comes after the parts. If the document was replaced between two pages, a part is
        missing, and there is none.
        """
        pk, sk = keys.item(item_id)
        found = await self.table.query_all(KeyRange(pk=pk), limit=documents.PARTS_MAX)
        row = next((item for item in found if item["sk"] == sk), None)
        return row, None if row is None else documents.assemble(row, found)

    # ---- lists and counts ----------------------------------------------------------------------

    async def list_items(
        self,
        collection: str | None,
        *,
        user_id: str | None = None,
        states: Sequence[ItemState] = (),
        limit: int,
        after: str | None = None,
    ) -> Sequence[ItemRow]:
        """Items in the order of their ids."""
        found: list[ItemRow] = []
        rows = self._all(after) if user_id is None else self._of_user(user_id, after)
        async for row in rows:
            wanted = collection in (None, row.collection) and (not states or row.state in states)
            if wanted and len(found) < limit:
                found.append(row)
            if len(found) >= limit:
                break
        return found

    async def count_items(self, collection: str) -> ItemCounts:
        """The counts of a collection's items."""
        rows = [row async for row in self._all() if row.collection == collection]
        retries = Counter(row.retry_count for row in rows if row.state is ItemState.FAILED)
        return ItemCounts(states=_count_states(rows), retries=dict(sorted(retries.items())))

    async def progress(self, collection: str, user_id: str) -> Mapping[ItemState, int]:
        """The number of a user's items in each state."""
        rows = [row async for row in self._of_user(user_id) if row.collection == collection]
        return _count_states(rows)

    async def progress_of_connections(
        self,
        of: Sequence[tuple[str, str]],
        *,
        lane: Lane | None = None,
        since: datetime | None = None,
    ) -> Mapping[tuple[str, str], ItemProgress]:
        """How far the items of each collection and connection are, of one lane or of both."""
        places = [_of_connection(each) for each in {connection_id: None for _, connection_id in of}]
        pages = await gather(self.table.query_all(each, limit=COUNTED_MAX) for each in places)
        found = await self.table.get_many(
            [keys.item(entry["item_id"]) for page in pages for entry in page]
        )
        rows: dict[tuple[str, str], list[ItemRow]] = {each: [] for each in of}
        for row in map(self.codec.from_item, found.values()):
            if lane in (None, row.lane) and (
                since is None or _is_left(row) or row.updated_at >= since
            ):
                rows.get((row.collection, row.connection_id), []).append(row)
        return {
            each: ItemProgress(_count_states(mine), sum(map(_is_left, mine)))
            for each, mine in rows.items()
        }

    async def count_stuck(self, collection: str) -> int:
        """The number of items that failed for good."""
        return len([1 async for row in self._all() if row.collection == collection and row.stuck])

    async def count_limited(self, collection: str, *, within: timedelta) -> int:
        """The number of items that the provider's rate limit refused in that time."""
        since = self.table.now() - within
        times = [row.limited_at async for row in self._all() if row.collection == collection]
        return sum(at is not None and at > since for at in times)

    async def _all(self, after: str | None = None) -> AsyncIterator[ItemRow]:
        async for item in iterate(self.table, KIND, after=after):
            yield self.codec.from_item(item)

    async def _of_user(self, user_id: str, after: str | None = None) -> AsyncIterator[ItemRow]:
        which = KeyRange(pk=keys.join("items", user_id), first=after, index=BY_USER)
        sort_key, more = index_keys(BY_USER)[1], None
        while True:
            page = await self.table.query(which, limit=100, after=more)
            entries = [entry for entry in page.items if entry[sort_key] != after]
            for row in await self.read_rows(entries):
                yield row
            more = page.after
            if more is None:
                return

    # ---- deleting ------------------------------------------------------------------------------

    async def delete(self, deletion: Deletion) -> int:
        """Delete items and records, and leave tombstones; returns how many there were.

        Each is deleted for itself: whoever is interrupted repeats the whole.
        """
        connection_id, now = deletion.connection_id, self.table.now()
        buried = [keys.tombstone(connection_id, each) for each in deletion.item_ids]
        # First, so that nothing is registered while the items are looked for.
        await self.table.write_batch([_tombstone(each, now) for each in dict.fromkeys(buried)])
        rows = await self.table.get_many([keys.item(each) for each in deletion.item_ids])
        own = [row for row in rows.values() if row["connection_id"] == connection_id]
        await gather(self._forget_item(row["id"], _pointer(row)) for row in own)
        return len(own) + await self._bury_records(deletion, now)

    async def _bury_records(self, deletion: Deletion, now: datetime) -> int:
        """Put a tombstone in the place of each record; returns how many there were."""
        places = [
            keys.record(name, deletion.connection_id, key)
            for name in dict.fromkeys(deletion.stored_as)
            for key in dict.fromkeys(deletion.keys)
        ]
        stored = await self.table.get_many(places, ["hash"])
        await self.table.write_batch([_tombstone(each, now) for each in places])
        return sum("hash" in item for item in stored.values())

    async def forget(self, connection_id: str, *, limit: int) -> int:
        """Delete some of the connection's items and documents; returns how many."""
        entries = await self.table.query_all(_of_connection(connection_id), limit=limit)
        await gather(self._forget_item(entry["item_id"], key_of(entry)) for entry in entries)
        return len(entries)

    async def _forget_item(self, item_id: str, pointer: Key) -> None:
        """Delete an item with all parts of its documents; who has claimed it loses the claim.

        The row goes with the pointer by which it is found, and after the parts.
        """
        await self.table.write_batch(deletes=await self._parts(item_id))
        await self.table.transact([Delete(at=keys.item(item_id)), Delete(at=pointer)])

    async def forget_removed(self, *, limit: int) -> int:
        """Delete some items of one removed connection; returns how many."""
        async for item in iterate(self.table, REMOVED, page=1):
            forgotten = await self.forget(item["connection_id"], limit=limit)
            if forgotten:
                return forgotten
            # Nothing is registered for it any more, so this was the last time to look.
            ends = self.table.now() + REMOVALS_KEPT
            written: Item = {TTL: int(ends.timestamp()), **dict.fromkeys(index_keys(BY_SYNC))}
            await self.table.write(
                Update(at=key_of(item), change=set_and_remove(written), values=written)
            )
        return 0


def _tombstone(place: Key, now: datetime) -> Item:
    ends = now + TOMBSTONES_KEPT
    pk, sk = place
    return {"pk": pk, "sk": sk, "deleted_at": time_text(now), TTL: int(ends.timestamp())}


def _of_connection(connection_id: str) -> KeyRange:
    """What names the items of a connection."""
    pk, _ = keys.connection(connection_id)
    return KeyRange(pk=pk, first="item#", last="item#" + keys.LAST)


def _pointer(row: Item) -> Key:
    return keys.connection_item(
        row["connection_id"], row["collection"], row.get("external_id"), row["id"]
    )


def _is_left(row: ItemRow) -> bool:
    return row.state in ITEM.active and not row.stuck


def _count_states(rows: Sequence[ItemRow]) -> dict[ItemState, int]:
    counts = Counter(row.state for row in rows)
    return {state: counts[state] for state in ItemState}
