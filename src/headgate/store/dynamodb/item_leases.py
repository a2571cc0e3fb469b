"""Items as leased rows: their places in the indexes, their claims, and their documents.

The items of a connection that wait are in one partition of an index, in the order in which they are
claimed; the end of an entry says when the item is due. So a claim reads what it claims, and what
waits before it.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from headgate.base.errors import Conflict, HeadgateError, StoreError
from headgate.model.item import ITEMS, Document, ItemChange
from headgate.model.item import Item as ItemRow
from headgate.model.job import Lane
from headgate.model.states import ITEM, ItemEdge
from headgate.store.dynamodb import documents, keys
from headgate.store.dynamodb.at_once import gather, gather_most
from headgate.store.dynamodb.attributes import Item, Key, key_of
from headgate.store.dynamodb.catalogue import listed
from headgate.store.dynamodb.definition import BY_CONNECTION, BY_STATE, BY_USER, index_keys
from headgate.store.dynamodb.errors import ConditionFailed
from headgate.store.dynamodb.keys import time_text
from headgate.store.dynamodb.leases import DynamoLeases, Settlement
from headgate.store.dynamodb.table import DynamoTable, KeyRange
from headgate.store.dynamodb.writes import IS_NEW, Delete, Put
from headgate.store.packing import pack

#: The kind of items among the rows that can be listed.
KIND = "item"
#: How many waiting items are looked at in one request.
PAGE = 100
#: The most items of one connection that are claimed at a time.
CLAIMED_MAX = 10_000
_RANK = {Lane.HOT: "0", Lane.COLD: "1"}
_WAITING = ITEM.claim.sources
_IS_DUE = (
    "#next_attempt_at <= :now AND "
    "(attribute_not_exists(#deferred_until) OR #deferred_until <= :now)"
)

ItemSettlement = Settlement[ItemRow, ItemChange, Document]


def waiting_index(row: ItemRow) -> Item:
    """The place of an item among those that wait; none if it does not."""
    if row.state not in _WAITING or row.next_attempt_at is None:
        return {}
    place = (_RANK[row.lane], time_text(row.start_time), row.id, time_text(row.next_attempt_at))
    return keys.in_index(
        BY_STATE, keys.join("waiting", row.collection, row.connection_id), keys.join(*place)
    )


def fetching_index(collection: str, connection_id: str, item_id: str) -> Item:
    """The place of an item among those of its connection that are claimed."""
    return keys.in_index(BY_CONNECTION, keys.join("fetching", collection, connection_id), item_id)


class ItemLeases(DynamoLeases[ItemRow, ItemChange, Document]):
    """The part of the `ItemStore` port that claims and settles."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        super().__init__(table, ITEMS)

    def key(self, row_id: str) -> Key:
        """The key of an item."""
        return keys.item(row_id)

    def index(self, row: ItemRow) -> Item:
        """The places of an item in the indexes."""
        nowhere = dict.fromkeys([*index_keys(BY_STATE), *index_keys(BY_CONNECTION)])
        claimed: Item = {}
        if row.lease_until is not None:
            claimed = {
                **self.claimed_index(row.id, row.lease_until),
                **fetching_index(row.collection, row.connection_id, row.id),
            }
        of_user = keys.in_index(BY_USER, keys.join("items", row.user_id), row.id)
        return {**nowhere, **waiting_index(row), **claimed, **of_user, **listed(KIND, row.id)}

    # ---- settling ------------------------------------------------------------------------------

    async def settle(
        self, change: ItemChange, payload: Document | None = None, /
    ) -> ItemRow | None:
        """Apply a change and store its document, in one transaction."""
        succeeds = change.edge.name is ItemEdge.SUCCEED
        assert succeeds == (payload is not None), "success has a document"
        row = await super().settle(change, payload)
        if row is None and succeeds:
            await self._drop_unnamed(change)
        return row

    async def prepare(self, settlement: ItemSettlement) -> None:
        """Add the document of a success, or what makes a new id at the provider the item's own."""
        change, row = settlement.change, settlement.row
        if settlement.payload is not None:
            await self._add_document(settlement, settlement.payload)
        elif change.edge.name is ItemEdge.APPEAR:
            of = (row.connection_id, row.collection)
            pk, sk = keys.connection_item(*of, row.external_id, row.id)
            settlement.writes = [
                Put(item={"pk": pk, "sk": sk, "item_id": row.id}, condition=IS_NEW),
                Delete(at=keys.connection_item(*of, None, row.id)),
            ]

    async def _add_document(self, settlement: ItemSettlement, document: Document) -> None:
        packed = pack(document)
        parts = documents.split(
            settlement.row.id, documents.document_id(settlement.row, packed), packed.body
        )
        old = documents.part_keys(settlement.item)
        if settlement.row.crashes or settlement.item.get(documents.LEFT):
            old = await self._parts(settlement.row.id)
        new = {key_of(part) for part in parts}
        gone = [key for key in old if key not in new]
        # A transaction has 4 MB, and what it deletes may count.
        settlement.writes = [Delete(at=key) for key in gone] if len(gone) == 1 else []
        settlement.left = gone if len(gone) > 1 else []
        settlement.more = {
            **documents.describe(settlement.row, settlement.now, packed, parts),
            documents.LEFT: True if settlement.left else None,
        }
        if len(parts) == 1:
            settlement.writes.append(Put(item=parts[0]))
        else:
            # One by one: together they would be more than a client sends without copies.
            await gather(self.table.write_batch([part]) for part in parts)

    async def _parts(self, item_id: str, document: str = "") -> list[Key]:
        """The keys of all parts of documents whose names begin so, whoever has left them."""
        pk, _ = keys.item(item_id)
        first = f"doc#{document}"
        parts = KeyRange(pk=pk, first=first, last=first + keys.LAST, keys_only=True)
        found = await self.table.query_all(parts, limit=documents.PARTS_MAX)
        return [key_of(item) for item in found]

    async def _drop_unnamed(self, change: ItemChange) -> None:
        """Delete the parts that a claim has written and lost before a row could name them.

        The item may have been deleted meanwhile: then nobody else would ever look for them.
        """
        own = documents.names_of(change.before.token + change.fences)
        if parts := await self._parts(change.after.id, own):
            row = await self.table.get(self.key(change.after.id))
            # Perhaps an earlier try was written after all, and its answer lost.
            if row is None or not str(row.get("doc_id", "")).startswith(own):
                await self.table.write_batch(deletes=parts)

    def explain(self, settlement: ItemSettlement, failed: ConditionFailed) -> HeadgateError | None:
        """Say that another item has the id at the provider."""
        taken = settlement.change.edge.name is ItemEdge.APPEAR and failed.failed[1]
        return Conflict("another item has that id at the provider") if taken else None

    # ---- claiming ------------------------------------------------------------------------------

    async def claim(
        self,
        collection: str,
        connection_id: str,
        *,
        limit: int,
        lease: timedelta,
        worker: str,
        lane: Lane | None = None,
    ) -> Sequence[ItemRow]:
        """Claim due items, of one lane or of both, each in one conditional write."""
        claimed: list[ItemRow] = []
        waiting: list[str] = []
        more = dict.fromkeys(["deferred_until"])

        async def claim_one(item_id: str) -> ItemRow | None:
            place = fetching_index(collection, connection_id, item_id)
            return await self.claim_row(
                item_id, worker=worker, lease=lease, condition=_IS_DUE, more={**more, **place}
            )

        async def claim_waiting() -> None:
            some = waiting[: limit - len(claimed)]
            del waiting[: len(some)]
            found, errors = await gather_most(claim_one(each) for each in some)
            claimed.extend(row for row in found if row is not None)
            if errors:
                raise errors[0]

        now = time_text(self.table.now())
        try:
            async for item_id, due in self._waiting(collection, connection_id, lane):
                if due <= now:
                    waiting.append(item_id)
                if len(waiting) == limit - len(claimed):
                    await claim_waiting()
                if len(claimed) == limit:
                    break
            await claim_waiting()
        except StoreError:
            # What is claimed is worked on: else nobody would, until its lease ends.
            if not claimed:
                raise
        return sorted(claimed, key=lambda row: (_RANK[row.lane], row.start_time, row.id))

    async def _waiting(
        self, collection: str, connection_id: str, lane: Lane | None
    ) -> AsyncIterator[tuple[str, str]]:
        """The ids of waiting items in the order of claims, and when each is due."""
        rank = None if lane is None else _RANK[lane]
        entries = KeyRange(
            pk=keys.join("waiting", collection, connection_id),
            first=rank,
            last=None if rank is None else rank + keys.LAST,
            index=BY_STATE,
        )
        sort_key, after = index_keys(BY_STATE)[1], None
        while True:
            page = await self.table.query(entries, limit=PAGE, after=after)
            for entry in page.items:
                _, _, item_id, due = str(entry[sort_key]).split("#")
                yield keys.unescape(item_id), due
            after = page.after
            if after is None:
                return

    async def next_due_s(
        self, collection: str, connection_id: str, *, lane: Lane | None = None
    ) -> float | None:
        """Seconds until an item can be claimed or a claim ends; None if nothing is left."""
        now = self.table.now()
        times: list[str] = []
        async for _, due in self._waiting(collection, connection_id, lane):
            times.append(due)
            if due <= time_text(now):
                break
        fetching = KeyRange(
            pk=keys.join("fetching", collection, connection_id), index=BY_CONNECTION
        )
        entries = await self.table.query_all(fetching, limit=CLAIMED_MAX)
        for row in await self.read_rows(entries):
            if row.lease_until is not None and lane in (None, row.lane):
                times.append(time_text(row.lease_until))
        return documents.seconds_until(min(times), now) if times else None
