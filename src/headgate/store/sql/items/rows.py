"""Items: registering, claiming, settling, finding and deleting them.

A claim is one statement with all conditions in its WHERE, served by one partial index, which has
only waiting items. Every other change goes through `settle`, the guarded write.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.model.item import ITEMS, Item, ItemChange, appear
from headgate.model.job import Lane
from headgate.model.lease import LockedRow
from headgate.model.states import ITEM, ItemState
from headgate.ports.items import (
    Deletion,
    NewItem,
    RegisterResult,
)
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.moment import Moment, instant
from headgate.store.sql.engine.statements import ROWS_MAX, Insert
from headgate.store.sql.items import documents, removals, tombstones
from headgate.store.sql.items.packing import PackedDocument
from headgate.store.sql.leases.table import LeaseTable, RowUpdate, seconds_until_first
from headgate.store.sql.records import store as records
from headgate.store.sql.tables import (
    CLAIM_ORDER,
    ELIGIBLE,
    in_states,
    item_documents,
    items,
)

TABLE = LeaseTable[Item, ItemChange, LockedRow, PackedDocument](ITEMS, items)


# ---- registering -------------------------------------------------------------------------------


def _return_new_ids(insert: Insert) -> Insert:
    return cast(Insert, insert.on_conflict_do_nothing().returning(items.c.id))


_insert = insert_many(items, items.c.keys(), on_conflict=_return_new_ids)


def register(tx: Connection, now: Moment, found: Sequence[NewItem]) -> RegisterResult:
    """Store new items, and make those pending that now have an id at the provider."""
    at = now.read(tx)
    connection_ids = {each.connection_id for each in found}
    tombstones.keep_deletions_out(tx, connection_ids)
    removed = removals.removed_among(tx, connection_ids)
    # In the order of their ids, so that transactions never deadlock.
    found = sorted(
        (each for each in found if each.connection_id not in removed), key=attrgetter("id")
    )
    created = 0
    appeared = 0
    for begin in range(0, len(found), ROWS_MAX):
        some = _without_deleted(tx, found[begin : begin + ROWS_MAX])
        created += len(_insert.run(tx, [_new_row(each, at) for each in some]))
        appeared += _appear(tx, now, some)
        _move_to_hot(tx, [each.id for each in some if each.lane is Lane.HOT])
    return RegisterResult(created, appeared)


def _without_deleted(tx: Connection, found: Sequence[NewItem]) -> list[NewItem]:
    connection_ids, ids = {each.connection_id for each in found}, [each.id for each in found]
    deleted = set(tx.execute(tombstones.keys(connection_ids, tombstones.ITEMS, ids)).scalars())
    return [each for each in found if each.id not in deleted]


def _move_to_hot(tx: Connection, ids: Sequence[str]) -> None:
    """Move the items that are not finished to the hot lane, because somebody asks for them."""
    if ids:
        cold = (TABLE.among(tx.dialect), in_states(items, *ITEM.active), items.c.lane == Lane.COLD)
        tx.execute(update(items).where(*cold).values(lane=Lane.HOT), {"ids": list(ids)})


def _new_row(new: NewItem, at: datetime) -> dict[str, Any]:
    known = new.external_id is not None
    item = Item(
        state=ItemState.PENDING if known else ItemState.UNAVAILABLE,
        next_attempt_at=at if known else None,
        created_at=at,
        updated_at=at,
        **msgspec.structs.asdict(new),
    )
    return msgspec.structs.asdict(item)


def _appear(tx: Connection, now: Moment, found: Sequence[NewItem]) -> int:
    """Give their ids to items registered without one, unless taken; returns how many."""
    external_ids = {each.id: each.external_id for each in found if each.external_id is not None}
    query = select(*TABLE.columns).where(TABLE.among(tx.dialect), items.c.external_id.is_(None))
    waiting = (
        [TABLE.to_row(row) for row in tx.execute(query, {"ids": list(external_ids)})]
        if external_ids
        else []
    )
    free = [item for item in waiting if not _is_taken(tx, item, external_ids[item.id])]
    appeared = settle(tx, now, [(appear(item, external_ids[item.id]), None) for item in free])
    return sum(each is not None for each in appeared)


def _is_taken(tx: Connection, item: Item, external_id: str) -> bool:
    query = select(items.c.id).where(
        items.c.connection_id == item.connection_id,
        items.c.collection == item.collection,
        items.c.external_id == external_id,
    )
    return tx.execute(query).first() is not None


# ---- claiming ----------------------------------------------------------------------------------


def claim(
    tx: Connection,
    now: Moment,
    collection: str,
    connection_id: str,
    *,
    limit: int,
    lease: timedelta,
    worker: str,
    lane: Lane | None = None,
) -> list[Item]:
    """Claim due items, of one lane or of both, in one statement."""
    binds = {
        "of_collection": collection,
        "of_connection": connection_id,
        "most": limit,
        "by_worker": worker,
        **({} if lane is None else {"of_lane": lane}),
        **now.binds(lease=lease),
    }
    statement = _claim(server=now.server, of_lane=lane is not None)
    claimed_items = TABLE.find(tx, statement, binds)
    # UPDATE … RETURNING has no order.
    return sorted(
        claimed_items, key=lambda item: (item.lane is not Lane.HOT, item.start_time, item.id)
    )


def _is_due(now: ColumnElement[datetime]) -> ColumnElement[bool]:
    deferred = items.c.deferred_until
    return and_(ELIGIBLE, items.c.next_attempt_at <= now, or_(deferred.is_(None), deferred <= now))


@cache
def _claim(*, server: bool, of_lane: bool) -> ReturningUpdate[Any]:
    query = select(items.c.id).where(
        _is_due(instant(server=server)),
        items.c.collection == bindparam("of_collection"),
        items.c.connection_id == bindparam("of_connection"),
    )
    if of_lane:
        query = query.where(items.c.lane == bindparam("of_lane", type_=items.c.lane.type))
    query = query.order_by(*CLAIM_ORDER).limit(bindparam("most", type_=Integer))
    # Skip items that another worker is claiming.
    due = query.with_for_update(skip_locked=True)
    return TABLE.claim(due, server=server, deferred_until=None)


# ---- the guarded write -------------------------------------------------------------------------


def settle(
    tx: Connection, now: Moment, batch: Sequence[tuple[ItemChange, PackedDocument | None]]
) -> list[Item | None]:
    """Apply the valid changes and store the documents; the result of a change that lost is None."""
    return TABLE.settle(tx, now, batch, _store)


def _store(tx: Connection, settled: list[RowUpdate[Item, ItemChange, PackedDocument]]) -> None:
    TABLE.write(tx, settled)
    fetched = [(each.row.id, each.payload) for each in settled if each.payload is not None]
    documents.store(tx, fetched, settled[0].now)


# ---- finding -----------------------------------------------------------------------------------


def next_due_s(
    tx: Connection, now: Moment, collection: str, connection_id: str, *, lane: Lane | None = None
) -> float | None:
    """Seconds until an item can be claimed or a claim ends; None if nothing is left."""
    mine = [items.c.collection == collection, items.c.connection_id == connection_id]
    if lane is not None:
        mine.append(items.c.lane == lane)
    waiting = select(func.min(items.c.next_attempt_at)).where(ELIGIBLE, *mine)
    claimed = select(func.min(items.c.lease_until)).where(TABLE.claimed, *mine)
    query = select(now.at(), waiting.scalar_subquery(), claimed.scalar_subquery())
    return seconds_until_first(tx, query, {})


def find(
    tx: Connection,
    collection: str | None,
    *,
    user_id: str | None = None,
    states: Sequence[ItemState] = (),
    limit: int,
    after: str | None = None,
) -> list[Item]:
    """Items in the order of their ids."""
    query = select(*TABLE.columns)
    if collection is not None:
        query = query.where(items.c.collection == collection)
    if user_id is not None:
        query = query.where(items.c.user_id == user_id)
    if user_id is not None or states:
        query = query.where(in_states(items, *(states or ItemState)))
    if after is not None:
        query = query.where(items.c.id > after)
    return [TABLE.to_row(row) for row in tx.execute(query.order_by(items.c.id).limit(limit))]


# ---- deleting ----------------------------------------------------------------------------------


def delete_for_good(tx: Connection, now: Moment, deletion: Deletion) -> int:
    """Delete items and records, and leave tombstones; returns how many there were."""
    connection_id, keys = deletion.connection_id, deletion.keys
    tombstones.wait_for_writers(tx, connection_id, deletion.syncs)
    things = [(tombstones.ITEMS, item_id) for item_id in deletion.item_ids]
    things += [(name, key) for name in deletion.stored_as for key in keys]
    tombstones.put(tx, now, connection_id, things)
    forgotten = _forget_items(tx, connection_id, deletion.item_ids)
    return forgotten + records.forget_records(tx, deletion.stored_as, connection_id, keys)


def forget(tx: Connection, connection_id: str, *, limit: int) -> int:
    """Delete some of the connection's items and documents; returns how many."""
    query = (
        select(items.c.id)
        .where(items.c.connection_id == connection_id)
        # In the order of the index, so that the database reads only the first of many items.
        .order_by(items.c.collection, items.c.external_id)
        .limit(limit)
    )
    return _forget_items(tx, connection_id, tx.execute(query).scalars().all())


def forget_removed(tx: Connection, now: Moment, *, limit: int) -> int:
    """Delete some items of one removed connection; returns how many."""
    connection_id = removals.removed_with_items(tx)
    if connection_id is None:
        removals.prune(tx, now)
        tombstones.prune(tx, now)
        return 0
    return forget(tx, connection_id, limit=limit)


def _forget_items(tx: Connection, connection_id: str, item_ids: Sequence[str]) -> int:
    """Delete these items of the connection and their documents; returns how many there were."""
    own = (TABLE.among(tx.dialect), items.c.connection_id == connection_id)
    # Locked in the order of their ids, as everywhere, so that transactions never deadlock.
    query = select(items.c.id).where(*own).order_by(items.c.id).with_for_update()
    ids = tx.execute(query, {"ids": list(item_ids)}).scalars().all()
    for begin in range(0, len(ids), ROWS_MAX):
        some = ids[begin : begin + ROWS_MAX]
        tx.execute(delete(item_documents).where(item_documents.c.item_id.in_(some)))
        tx.execute(delete(items).where(items.c.id.in_(some)))
    return len(ids)
