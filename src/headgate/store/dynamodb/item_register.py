"""Registering items: each with an item that there is once for a thing of the provider's."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headgate.base.errors import Conflict
from headgate.model.item import Item as ItemRow
from headgate.model.item import appear
from headgate.model.job import Lane
from headgate.model.states import ITEM, ItemState
from headgate.ports.items import NewItem, RegisterResult
from headgate.store.deletions import TOMBSTONES_KEPT
from headgate.store.dynamodb import keys
from headgate.store.dynamodb.at_once import gather
from headgate.store.dynamodb.attributes import Item, Key
from headgate.store.dynamodb.errors import ConditionFailed
from headgate.store.dynamodb.item_leases import ItemLeases, waiting_index
from headgate.store.dynamodb.keys import time_text
from headgate.store.dynamodb.leases import unchanged
from headgate.store.dynamodb.rows import only_set
from headgate.store.dynamodb.writes import IS_NEW, Check, Put, Update, Write, set_and_remove

#: New items in one transaction: each has three writes, and all of a connection share one.
TOGETHER_MAX = 30


class ItemRegister(ItemLeases):
    """The part of the `ItemStore` port that registers."""

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Store new items, and make those pending that now have an id at the provider."""
        unique = {_pointer(each): each for each in {each.id: each for each in found}.values()}
        wanted = await self._without_gone(list(unique.values()))
        rows = await self.table.get_many([keys.item(each.id) for each in wanted])
        new = [each for each in wanted if keys.item(each.id) not in rows]
        known = [(each, rows[keys.item(each.id)]) for each in wanted if keys.item(each.id) in rows]
        by_connection: dict[str, list[NewItem]] = {}
        for each in new:
            by_connection.setdefault(each.connection_id, []).append(each)
        batches = [
            some[begin : begin + TOGETHER_MAX]
            for some in by_connection.values()
            for begin in range(0, len(some), TOGETHER_MAX)
        ]
        created = sum(await gather(self._create(some) for some in batches))
        appeared = sum(await gather(self._appear(each, item) for each, item in known))
        await gather(self._move_to_hot(each.id) for each, item in known if each.lane is Lane.HOT)
        return RegisterResult(created, appeared)

    async def _without_gone(self, found: Sequence[NewItem]) -> list[NewItem]:
        """Those whose connection was not removed, and that were not deleted a short time ago."""
        removed = {
            each.connection_id: keys.removed_connection(each.connection_id) for each in found
        }
        deleted = {each.id: keys.tombstone(each.connection_id, each.id) for each in found}
        gone = await self.table.get_many([*removed.values(), *deleted.values()])
        lasting = _lasting(self.table.now())
        return [
            each
            for each in found
            if removed[each.connection_id] not in gone
            and gone.get(deleted[each.id], {}).get("deleted_at", "") <= lasting
        ]

    async def _create(self, some: Sequence[NewItem]) -> int:
        """Store new items of one connection; returns how many of them were new."""
        try:
            await self.table.transact(self._writes(some))
        except ConditionFailed:
            if len(some) == 1:
                return 0
            return sum(await gather(self._create([each]) for each in some))
        return len(some)

    def _writes(self, some: Sequence[NewItem]) -> list[Write]:
        now = self.table.now()
        removed = keys.removed_connection(some[0].connection_id)
        writes: list[Write] = [Check(at=removed, condition=IS_NEW)]
        for new in some:
            pk, sk = _pointer(new)
            writes += [
                Put(item=self._new_item(new, now), condition=IS_NEW),
                Put(item={"pk": pk, "sk": sk, "item_id": new.id}, condition=IS_NEW),
                Check(
                    at=keys.tombstone(new.connection_id, new.id),
                    condition=f"{IS_NEW} OR #deleted_at <= :lasting",
                    values={"lasting": _lasting(now)},
                ),
            ]
        return writes

    def _new_item(self, new: NewItem, now: datetime) -> Item:
        known = new.external_id is not None
        row = ItemRow(
            state=ItemState.PENDING if known else ItemState.UNAVAILABLE,
            next_attempt_at=now if known else None,
            created_at=now,
            updated_at=now,
            **msgspec.structs.asdict(new),
        )
        pk, sk = self.key(new.id)
        return only_set({"pk": pk, "sk": sk, **self.codec.to_item(row), **self.index(row)})

    async def _appear(self, new: NewItem, item: Item) -> bool:
        """Give its id to an item registered without one, unless another item has it."""
        row = self.codec.from_item(item)
        if new.external_id is None or row.external_id is not None:
            return False
        try:
            return await self.settle(appear(row, new.external_id)) is not None
        except Conflict:
            return False

    async def _move_to_hot(self, item_id: str) -> None:
        """Move an item that is not finished to the hot lane, because somebody asks for it."""
        item = await self.table.get(self.key(item_id))
        if item is None or item["lane"] == Lane.HOT.value:
            return
        row = msgspec.structs.replace(self.codec.from_item(item), lane=Lane.HOT)
        if row.state not in ITEM.active:
            return
        written = {"lane": Lane.HOT.value, **waiting_index(row)}
        condition, seen = unchanged(item, ["state", "token", "next_attempt_at"])
        update = Update(
            at=self.key(item_id),
            change=set_and_remove(written),
            condition=condition,
            values={**written, **seen},
        )
        try:
            await self.table.write(update)
        except ConditionFailed:
            # It has just been claimed or settled.
            return


def _pointer(new: NewItem) -> Key:
    return keys.connection_item(new.connection_id, new.collection, new.external_id, new.id)


def _lasting(now: datetime) -> str:
    """Tombstones up to this time have served theirs."""
    return time_text(now - TOMBSTONES_KEPT)
