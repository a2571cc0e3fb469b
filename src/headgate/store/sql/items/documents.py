"""The documents of items, in a table of their own."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, select

from headgate.base.errors import NotFound
from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.ports.items import ServedItem, StoredDocument
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.statements import Insert
from headgate.store.sql.items.packing import ENCODING, PackedDocument
from headgate.store.sql.tables import in_states, item_documents, items

_NAMES = tuple(item_documents.c.keys())


def _replace(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=item_documents.primary_key.columns,
        set_={name: insert.excluded[name] for name in _NAMES if name != "item_id"},
    )


_store = insert_many(item_documents, _NAMES, on_conflict=_replace)


def store(tx: Connection, fetched: Sequence[tuple[str, PackedDocument]], at: datetime) -> None:
    """Store the document of each item, in place of its last one."""
    rows = [
        {
            "item_id": item_id,
            "media_type": packed.document.media_type,
            "attributes": packed.document.attributes,
            "fetched_at": at,
            "hash": packed.hash,
            "encoding": ENCODING,
            "body": packed.body,
        }
        for item_id, packed in fetched
    ]
    _store.run(tx, rows)


# ---- serving -----------------------------------------------------------------------------------

_FIELDS = StoredDocument.__struct_fields__
_STORED = tuple(item_documents.c[name] for name in _FIELDS)
_ITEM_FIELDS = Item.__struct_fields__
_SERVED = (*(items.c[name] for name in _ITEM_FIELDS), *_STORED)


def serve(tx: Connection, item_id: str, *, user_id: str | None = None) -> ServedItem:
    """The item with its document, if it was fetched; NotFound if it belongs to another user."""
    binds = {"of_item": item_id, **({} if user_id is None else {"of_user": user_id})}
    row = tx.execute(_serve(of_user=user_id is not None), binds).first()
    if row is None:
        raise NotFound(f"there is no item {item_id!r}")
    of_item, of_document = row[: len(_ITEM_FIELDS)], row[len(_ITEM_FIELDS) :]
    item = Item(**dict(zip(_ITEM_FIELDS, of_item, strict=True)))
    return ServedItem(item, None if of_document[0] is None else StoredDocument(*of_document))


@cache
def _serve(*, of_user: bool) -> Select[Any]:
    # An item that is fetched again keeps its old document meanwhile, but it is not served.
    of_this_item = and_(item_documents.c.item_id == items.c.id, in_states(items, ItemState.SUCCESS))
    query = (
        select(*_SERVED)
        .select_from(items.outerjoin(item_documents, of_this_item))
        .where(items.c.id == bindparam("of_item"))
    )
    return query.where(items.c.user_id == bindparam("of_user")) if of_user else query


def documents_of_items(tx: Connection, item_ids: Sequence[str]) -> list[StoredDocument]:
    """The last document of each of these items."""
    query = select(*_STORED).where(item_documents.c.item_id.in_(item_ids))
    return [StoredDocument(**dict(zip(_FIELDS, row, strict=True))) for row in tx.execute(query)]
