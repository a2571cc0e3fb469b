"""The items of a database that has none: there is nothing to find, and nothing can be added.

An application that declares a collection is refused before it could try.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headgate.base.errors import InvalidInput, NotFound
from headgate.model.item import ITEMS, Document, Item, ItemChange
from headgate.model.job import Lane
from headgate.model.lease import Claim, LeasedType
from headgate.model.states import ItemState
from headgate.ports.items import (
    Deletion,
    ItemCounts,
    ItemProgress,
    NewItem,
    RegisterResult,
    ServedItem,
    StoredDocument,
)


class NoItems:
    """No items."""

    kind: LeasedType[Item, Any, Any] = ITEMS

    async def register(self, found: Sequence[NewItem]) -> RegisterResult:
        """Refuse."""
        raise InvalidInput("collections", "this kind of database has no items")

    async def claim(
        self,
        collection: str,
        connection_id: str,
        *,
        limit: int,
        lease: timedelta,
        worker: str,
        lane: Lane | None = None,
    ) -> Sequence[Item]:
        """Nothing."""
        return []

    async def settle(self, change: ItemChange, payload: Document | None = None, /) -> Item | None:
        """None: nothing is claimed."""
        return None

    async def settle_many(
        self, batch: Sequence[tuple[ItemChange, Document | None]], /
    ) -> Sequence[Item | None]:
        """None for each."""
        return [None for _ in batch]

    async def extend(
        self, claims: Sequence[Claim], /, *, lease: timedelta
    ) -> Mapping[str, ItemState]:
        """Nothing is claimed."""
        return {}

    async def expire(self, worker: str, /) -> int:
        """Nothing is claimed."""
        return 0

    async def list_expired(self, *, limit: int) -> Sequence[Item]:
        """Nothing."""
        return []

    async def next_sweep_s(self) -> float | None:
        """Never."""
        return None

    async def get(self, row_id: str, /, *, user_id: str | None = None) -> Item:
        """Raise NotFound."""
        raise NotFound(f"there is no item {row_id}")

    async def next_due_s(
        self, collection: str, connection_id: str, *, lane: Lane | None = None
    ) -> float | None:
        """Nothing is left."""
        return None

    async def list_items(
        self,
        collection: str | None,
        *,
        user_id: str | None = None,
        states: Sequence[ItemState] = (),
        limit: int,
        after: str | None = None,
    ) -> Sequence[Item]:
        """Nothing."""
        return []

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        """Raise NotFound."""
        raise NotFound(f"there is no item {item_id}")

    async def count_items(self, collection: str) -> ItemCounts:
        """Zero in every state."""
        return ItemCounts(states=dict.fromkeys(ItemState, 0), retries={})

    async def progress(self, collection: str, user_id: str) -> Mapping[ItemState, int]:
        """Zero in every state."""
        return dict.fromkeys(ItemState, 0)

    async def progress_of_connection(
        self,
        collections: Sequence[str],
        connection_id: str,
        *,
        lane: Lane | None = None,
        since: datetime | None = None,
    ) -> ItemProgress:
        """Zero in every state, and nothing left."""
        return ItemProgress(dict.fromkeys(ItemState, 0), 0)

    async def count_stuck(self, collection: str) -> int:
        """None."""
        return 0

    async def count_limited(self, collection: str, *, within: timedelta) -> int:
        """None."""
        return 0

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """Nothing."""
        return []

    async def delete(self, deletion: Deletion) -> int:
        """Nothing to delete."""
        return 0

    async def forget(self, connection_id: str, *, limit: int) -> int:
        """Nothing to delete."""
        return 0

    async def forget_removed(self, *, limit: int) -> int:
        """Nothing to delete."""
        return 0
