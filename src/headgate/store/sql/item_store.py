"""The `Items` port on a SQL database: each method is one transaction around plain functions."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection

from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.ports.items import (
    Census,
    HeldItem,
    NewItem,
    Registered,
    Served,
    Settlement,
    StoredDocument,
)
from headgate.store.sql import documents, item_counts, items
from headgate.store.sql.database import Database
from headgate.store.sql.documents import pack
from headgate.store.sql.moment import Moment

T = TypeVar("T")


class SqlItems:
    """Items and their documents in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self.database = database

    async def _write(self, operation: Callable[[Connection, Moment], T]) -> T:
        """Give the operation the store's time, read when it runs and not when it was queued."""
        return await self.database.write(lambda tx: operation(tx, self.database.moment()))

    async def _read(self, operation: Callable[[Connection, Moment], T]) -> T:
        return await self.database.read(lambda tx: operation(tx, self.database.moment()))

    async def register(self, found: Sequence[NewItem]) -> Registered:
        """Store the items that are not known yet."""
        return await self._write(lambda tx, now: items.register(tx, now, found))

    async def claim(
        self,
        collection: str,
        connection_id: str,
        *,
        limit: int,
        lease: timedelta,
        worker: str,
    ) -> Sequence[Item]:
        """Take up to `limit` due items."""
        return await self._write(
            lambda tx, now: items.claim(
                tx, now, collection, connection_id, limit=limit, lease=lease, worker=worker
            )
        )

    async def claim_these(
        self, item_ids: Sequence[str], *, lease: timedelta, worker: str
    ) -> Sequence[Item]:
        """Take those of these items that are due."""
        return await self._write(
            lambda tx, now: items.claim_these(tx, now, item_ids, lease=lease, worker=worker)
        )

    async def extend(self, held: Sequence[HeldItem], *, lease: timedelta) -> set[str]:
        """Extend the leases that are still held."""
        return await self._write(lambda tx, now: items.extend(tx, now, held, lease=lease))

    async def settle(self, batch: Sequence[Settlement]) -> Sequence[Item | None]:
        """Apply changes with what was fetched."""
        packed = []
        for change, document in batch:
            assert (change.edge.name == "succeed") == (document is not None), (
                "success is a document"
            )
            packed.append((change, None if document is None else pack(document)))
        return await self._write(lambda tx, now: items.settle(tx, now, packed))

    async def expired(self, *, limit: int) -> Sequence[Item]:
        """Items whose lease has run out."""
        return await self._read(lambda tx, now: items.expired(tx, now, limit=limit))

    async def next_expiry_s(self) -> float | None:
        """Seconds until the first lease ends."""
        return await self._read(items.next_expiry_s)

    async def next_due_s(self, collection: str, connection_id: str) -> float | None:
        """Seconds until one can be claimed."""
        return await self._read(
            lambda tx, now: items.next_due_s(tx, now, collection, connection_id)
        )

    async def get(self, item_id: str, *, user_id: str | None = None) -> Item:
        """The item."""
        return await self.database.read(lambda tx: items.get(tx, item_id, user_id=user_id))

    async def list_items(
        self,
        collection: str | None,
        *,
        user_id: str | None = None,
        states: Sequence[ItemState] = (),
        limit: int,
        after: str | None = None,
    ) -> Sequence[Item]:
        """Items in the order of their ids."""
        return await self.database.read(
            lambda tx: items.find(
                tx, collection, user_id=user_id, states=states, limit=limit, after=after
            )
        )

    async def serve(self, item_id: str, *, user_id: str | None = None) -> Served:
        """The item with its document."""

        def operation(tx: Connection) -> Served:
            if not self.database.embedded:
                # One statement needs no transaction around it, and to a server that would be two
                # more messages: without them it is served in two thirds of the time.
                tx.execution_options(isolation_level="AUTOCOMMIT")
            return documents.serve(tx, item_id, user_id=user_id)

        return await self.database.read(operation)

    async def census(self, collection: str) -> Census:
        """How all items of a collection stand."""
        return await self.database.read(lambda tx: item_counts.census(tx, collection))

    async def progress(self, collection: str, user_id: str) -> Mapping[ItemState, int]:
        """How many of a user's items are in each state."""
        return await self.database.read(lambda tx: item_counts.progress(tx, collection, user_id))

    async def stuck(self, collection: str) -> int:
        """How many have failed for good."""
        return await self.database.read(lambda tx: item_counts.stuck(tx, collection))

    async def limited(self, collection: str, *, within: timedelta) -> int:
        """How many items the provider has refused by its limit in that time."""
        return await self._read(
            lambda tx, now: item_counts.limited(tx, now, collection, within=within)
        )

    async def documents_of(self, item_ids: Sequence[str]) -> Sequence[StoredDocument]:
        """What was last fetched for each of these items, whatever became of them since."""
        return await self.database.read(lambda tx: documents.of_items(tx, item_ids))

    async def forget_these(self, item_ids: Sequence[str]) -> int:
        """Delete these items with their documents."""
        return await self._write(lambda tx, _: items.forget_these(tx, item_ids))

    async def forget(self, connection_id: str, *, limit: int) -> int:
        """Delete some of the connection's items."""
        return await self._write(lambda tx, _: items.forget(tx, connection_id, limit=limit))

    async def forget_removed(self, *, limit: int) -> int:
        """Delete some items of a connection that was removed."""
        return await self._write(lambda tx, now: items.forget_removed(tx, now, limit=limit))
