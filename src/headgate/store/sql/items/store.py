"""The `ItemStore` port on a SQL database."""

from collections.abc import Sequence

from sqlalchemy import Connection

from headgate.model.item import Document, Item, ItemChange
from headgate.model.states import ItemEdge
from headgate.ports.items import ServedItem
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import (
    autocommits_timed,
    reads,
    reads_timed,
    writes,
    writes_timed,
)
from headgate.store.sql.items import counts as item_counts
from headgate.store.sql.items import documents
from headgate.store.sql.items import rows as items
from headgate.store.sql.items.packing import PackedDocument, pack
from headgate.store.sql.leases.port import SqlLeases


class SqlItems(SqlLeases[Item, ItemChange, Document]):
    """Items and their documents in SQLite or Postgres."""

    table = items.TABLE

    def prepare(self, change: ItemChange, payload: Document | None) -> PackedDocument | None:
        """Compress the document."""
        succeeds = change.edge.name is ItemEdge.SUCCEED
        assert succeeds == (payload is not None), "success has a document"
        return None if payload is None else pack(payload)

    def settle_in(
        self, tx: Connection, now: Moment, batch: Sequence[tuple[ItemChange, PackedDocument | None]]
    ) -> list[Item | None]:
        """Apply the changes that are still valid, and store their documents."""
        return items.settle(tx, now, batch)

    async def serve(self, item_id: str, *, user_id: str | None = None) -> ServedItem:
        return await self.database.autocommit(
            lambda tx: documents.serve(tx, item_id, user_id=user_id), read_only=True
        )

    register = writes_timed(items.register)
    claim = autocommits_timed(items.claim)
    next_due_s = reads_timed(items.next_due_s)
    list_items = reads(items.find)
    forget = writes(items.forget)
    forget_removed = writes_timed(items.forget_removed)
    delete = writes_timed(items.delete_for_good)

    documents_of = reads(documents.documents_of_items)

    count_items = reads(item_counts.count_items)
    progress = reads(item_counts.progress)
    progress_of_connections = reads(item_counts.progress_of_connections)
    count_stuck = reads(item_counts.count_stuck)
    count_limited = reads_timed(item_counts.count_limited)
