"""Items: registering, claiming, keeping, changing and finding them.

A claim is one statement with every condition in its WHERE, and one partial index serves it: only
items that wait are in it. Every other change goes through `settle`, the one guarded write.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from sqlalchemy import (
    ARRAY,
    ClauseElement,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    Integer,
    Row,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.base.errors import NotFound
from headgate.model.item import Item, ItemChange, appear
from headgate.model.job import Lane
from headgate.model.states import ItemState
from headgate.ports.items import (
    HeldItem,
    NewItem,
    Registered,
)
from headgate.store.sql import documents, removals
from headgate.store.sql.documents import Packed
from headgate.store.sql.many import Given, Many, insert_many
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.statements import ROWS_MAX, Insert
from headgate.store.sql.tables import (
    CLAIM_ORDER,
    ELIGIBLE,
    FETCHING,
    is_item_state,
    item_documents,
    items,
)

#: The columns of an item, in the order of the model's fields.
ITEM_COLUMNS = tuple(items.c[name] for name in Item.__struct_fields__)


def to_item(row: Row[Any]) -> Item:
    """A row of ITEM_COLUMNS as an item."""
    return Item(**dict(zip(Item.__struct_fields__, row, strict=True)))


def _among(dialect: Dialect) -> ColumnElement[bool]:
    """The id is one of `ids`. An array is one parameter, whatever its length."""
    if dialect.name == "postgresql":
        return items.c.id == any_(bindparam("ids", type_=ARRAY(Text)))
    return items.c.id.in_(bindparam("ids", expanding=True))


# ---- registering -------------------------------------------------------------------------------


def _tell_new(insert: Insert) -> Insert:
    return cast(Insert, insert.on_conflict_do_nothing().returning(items.c.id))


_insert = insert_many(items, items.c.keys(), on_conflict=_tell_new)


def register(tx: Connection, now: Moment, found: Sequence[NewItem]) -> Registered:
    """Store those that are not known yet, and set those going that have an id at last."""
    at = now.read(tx)
    removed = removals.among(tx, {each.connection_id for each in found})
    found = [each for each in found if each.connection_id not in removed]
    created = 0
    appeared = 0
    for begin in range(0, len(found), ROWS_MAX):
        some = found[begin : begin + ROWS_MAX]
        results = _insert.run(tx, [_new_row(each, at) for each in some])
        created += sum(len(result.all()) for result in results)
        appeared += _appear(tx, now, some)
    return Registered(created, appeared)


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
    """Of those that were here before without an id: how many have one now, and nobody else's."""
    told = {each.id: each.external_id for each in found if each.external_id is not None}
    query = select(*ITEM_COLUMNS).where(_among(tx.dialect), items.c.external_id.is_(None))
    waiting = [to_item(row) for row in tx.execute(query, {"ids": list(told)})] if told else []
    free = [item for item in waiting if not _is_taken(tx, item, told[item.id])]
    appeared = settle(tx, now, [(appear(item, told[item.id]), None) for item in free])
    return sum(each is not None for each in appeared)


def _is_taken(tx: Connection, item: Item, external_id: str) -> bool:
    query = select(items.c.id).where(
        items.c.connection_id == item.connection_id,
        items.c.collection == item.collection,
        items.c.external_id == external_id,
    )
    return tx.execute(query).first() is not None


# ---- claiming and keeping ----------------------------------------------------------------------


def claim(
    tx: Connection,
    now: Moment,
    collection: str,
    connection_id: str,
    *,
    limit: int,
    lease: timedelta,
    worker: str,
) -> list[Item]:
    """Take due items in one statement that nobody can come between."""
    asked = {
        "of_collection": collection,
        "of_connection": connection_id,
        "most": limit,
        "by_worker": worker,
        **now.binds(lease=lease),
    }
    return _in_order(tx, _claim(server=now.server), asked)


def claim_these(
    tx: Connection, now: Moment, item_ids: Sequence[str], *, lease: timedelta, worker: str
) -> list[Item]:
    """Take those of these that are due, and let them go first from now on."""
    asked = {"ids": list(item_ids), "by_worker": worker, **now.binds(lease=lease)}
    return _in_order(tx, _claim_these(tx.dialect, server=now.server), asked)


def _in_order(tx: Connection, statement: ReturningUpdate[Any], asked: dict[str, Any]) -> list[Item]:
    """What an UPDATE returns has no order of its own."""
    taken = [to_item(row) for row in tx.execute(statement, asked).all()]
    return sorted(taken, key=lambda item: (item.lane is not Lane.HOT, item.start_time, item.id))


def _is_due(now: ColumnElement[datetime]) -> ColumnElement[bool]:
    deferred = items.c.deferred_until
    return and_(ELIGIBLE, items.c.next_attempt_at <= now, or_(deferred.is_(None), deferred <= now))


@cache
def _claim(*, server: bool) -> ReturningUpdate[Any]:
    query = select(items.c.id).where(
        _is_due(instant(server=server)),
        items.c.collection == bindparam("of_collection"),
        items.c.connection_id == bindparam("of_connection"),
    )
    query = query.order_by(*CLAIM_ORDER).limit(bindparam("most", type_=Integer))
    return _take(query, server=server)


@cache
def _claim_these(dialect: Dialect, *, server: bool) -> ReturningUpdate[Any]:
    due = _is_due(instant(server=server))
    query = select(items.c.id).where(_among(dialect), due).order_by(items.c.id)
    return _take(query, server=server).values(lane=Lane.HOT)


def _take(query: Select[Any], *, server: bool) -> ReturningUpdate[Any]:
    # In a CTE of its own, so that it runs exactly once.
    picked = query.with_for_update(skip_locked=True).cte("picked")
    now = instant(server=server)
    return (
        update(items)
        .where(items.c.id.in_(select(picked.c.id)))
        .values(
            state=ItemState.FETCHING,
            token=items.c.token + literal_column("1"),
            lease_until=instant(server=server, after="lease"),
            worker=bindparam("by_worker"),
            next_attempt_at=None,
            deferred_until=None,
            attempted_at=now,
            updated_at=now,
        )
        .returning(*ITEM_COLUMNS)
    )


def extend(tx: Connection, now: Moment, held: Sequence[HeldItem], *, lease: timedelta) -> set[str]:
    """Extend what is still held under the same token; rows are locked in the order of their ids."""
    pairs = [(each.item_id, each.token) for each in held]
    mine = (
        select(items.c.id)
        .where(
            items.c.id.in_([item_id for item_id, _ in pairs]),
            tuple_(items.c.id, items.c.token).in_(pairs),
            FETCHING,
        )
        .order_by(items.c.id)
        .with_for_update()
        .cte("mine")
    )
    statement = (
        update(items)
        .where(items.c.id.in_(select(mine.c.id)))
        .values(lease_until=now.at(lease))
        .returning(items.c.id)
    )
    return set(tx.execute(statement).scalars())


# ---- the guarded write -------------------------------------------------------------------------

_WRITTEN = (
    "external_id",
    "state",
    "retry_count",
    "deferrals",
    "crashes",
    "next_attempt_at",
    "deferred_until",
    "limited_at",
    "error",
    "token",
    "lease_until",
    "updated_at",
)


class _Settled(msgspec.Struct, frozen=True):
    """A row as it is to be written, over one that stands as it was read."""

    before: Item
    item: Item


def _build_write(rows: FromClause, _: Dialect) -> ClauseElement:
    return (
        update(items)
        .where(
            items.c.id == rows.c.seen_id,
            items.c.token == rows.c.seen_token,
            items.c.state == rows.c.seen_state,
        )
        .values({name: rows.c[f"new_{name}"] for name in _WRITTEN})
    )


_write = Many(
    {
        **{
            f"new_{name}": Given(items.c[name].type, attrgetter(f"item.{name}"))
            for name in _WRITTEN
        },
        "seen_id": Given(items.c.id.type, attrgetter("before.id")),
        "seen_token": Given(items.c.token.type, attrgetter("before.token")),
        "seen_state": Given(items.c.state.type, attrgetter("before.state")),
    },
    _build_write,
)


def settle(
    tx: Connection, now: Moment, batch: Sequence[tuple[ItemChange, Packed | None]]
) -> list[Item | None]:
    """Apply the changes that still hold, with what was fetched; None where one lost."""
    ids = sorted({change.before.id for change, _ in batch})
    assert len(ids) == len(batch), "two changes of one item"
    if not batch:
        return []
    seen = _lock(tx, now, ids)
    settled: list[Item | None] = []
    written: list[_Settled] = []
    fetched: list[tuple[str, Packed]] = []
    at = None
    for change, packed in batch:
        row = seen.get(change.before.id)
        if row is None or not _fence_holds(change, row):
            settled.append(None)
            continue
        at = row.now
        item = _become(change, at)
        settled.append(item)
        written.append(_Settled(change.before, item))
        if packed is not None:
            fetched.append((item.id, packed))
    _write.run(tx, written)
    if at is not None:
        documents.store(tx, fetched, at)
    return settled


def _lock(tx: Connection, now: Moment, ids: Sequence[str]) -> dict[str, Row[Any]]:
    query = _locked(tx.dialect, server=now.server)
    return {row.id: row for row in tx.execute(query, {"ids": ids, **now.binds()})}


@cache
def _locked(dialect: Dialect, *, server: bool) -> Select[Any]:
    return (
        select(
            items.c.id,
            items.c.state,
            items.c.token,
            items.c.lease_until,
            instant(server=server).label("now"),
        )
        .where(_among(dialect))
        .order_by(items.c.id)
        .with_for_update()
    )


def _fence_holds(change: ItemChange, row: Row[Any]) -> bool:
    return (
        row.token == change.before.token
        and row.state is change.before.state
        and change.lease_seen in (None, row.lease_until)
    )


def _become(change: ItemChange, at: datetime) -> Item:
    """The item as the row will say, with what only the store knows filled in."""
    due = None if change.wake is None else at + change.wake
    return msgspec.structs.replace(
        change.after,
        next_attempt_at=due,
        deferred_until=due if change.edge.target is ItemState.DEFERRED else None,
        limited_at=at if change.limited else change.after.limited_at,
        token=change.before.token + change.fences,
        updated_at=at,
    )


# ---- looking -----------------------------------------------------------------------------------


def expired(tx: Connection, now: Moment, *, limit: int) -> list[Item]:
    """Items whose lease has run out."""
    query = (
        select(*ITEM_COLUMNS)
        .where(FETCHING, items.c.lease_until < now.at())
        .order_by(items.c.lease_until)
        .limit(limit)
    )
    return [to_item(row) for row in tx.execute(query)]


def next_expiry_s(tx: Connection, now: Moment) -> float | None:
    """Seconds until the first lease ends."""
    at, first = tx.execute(_next_expiry(server=now.server), now.binds()).one()
    return None if first is None else max(0.0, (first - at).total_seconds())


@cache
def _next_expiry(*, server: bool) -> Select[Any]:
    first = select(func.min(items.c.lease_until)).where(FETCHING)
    return select(instant(server=server).label("at"), first.scalar_subquery())


def next_due_s(tx: Connection, now: Moment, collection: str, connection_id: str) -> float | None:
    """Seconds until one can be claimed."""
    first = select(func.min(items.c.next_attempt_at)).where(
        ELIGIBLE, items.c.collection == collection, items.c.connection_id == connection_id
    )
    at, then = tx.execute(select(now.at(), first.scalar_subquery())).one()
    return None if then is None else max(0.0, (then - at).total_seconds())


def get(tx: Connection, item_id: str, *, user_id: str | None = None) -> Item:
    """The item, if it is there and, where a user is named, that user's."""
    query = select(*ITEM_COLUMNS).where(items.c.id == item_id)
    if user_id is not None:
        query = query.where(items.c.user_id == user_id)
    row = tx.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no item {item_id!r}")
    return to_item(row)


def find(
    tx: Connection,
    collection: str | None,
    *,
    user_id: str | None,
    states: Sequence[ItemState],
    limit: int,
    after: str | None,
) -> list[Item]:
    """Items in the order of their ids."""
    query = select(*ITEM_COLUMNS)
    if collection is not None:
        query = query.where(items.c.collection == collection)
    if user_id is not None:
        query = query.where(items.c.user_id == user_id)
    if user_id is not None or states:
        query = query.where(is_item_state(*(states or ItemState)))
    if after is not None:
        query = query.where(items.c.id > after)
    return [to_item(row) for row in tx.execute(query.order_by(items.c.id).limit(limit))]


# ---- forgetting --------------------------------------------------------------------------------


def forget(tx: Connection, connection_id: str, *, limit: int) -> int:
    """Delete some of the connection's items, and what was fetched for them."""
    query = (
        select(items.c.id)
        .where(items.c.connection_id == connection_id)
        # As the index has them: a few of many would else be looked for among all.
        .order_by(items.c.collection, items.c.external_id)
        .limit(limit)
    )
    return forget_these(tx, tx.execute(query).scalars().all())


def forget_removed(tx: Connection, now: Moment, *, limit: int) -> int:
    """Delete some items of a connection that was removed."""
    connection_id = removals.with_items(tx)
    if connection_id is None:
        removals.prune(tx, now)
        return 0
    return forget(tx, connection_id, limit=limit)


def forget_these(tx: Connection, item_ids: Sequence[str]) -> int:
    """Delete these items, and what was fetched for them; how many there were."""
    # Locked in the order of their ids, as everywhere: two transactions never wait for each other.
    query = select(items.c.id).where(_among(tx.dialect)).order_by(items.c.id).with_for_update()
    ids = tx.execute(query, {"ids": list(item_ids)}).scalars().all()
    for begin in range(0, len(ids), ROWS_MAX):
        some = ids[begin : begin + ROWS_MAX]
        tx.execute(delete(item_documents).where(item_documents.c.item_id.in_(some)))
        tx.execute(delete(items).where(items.c.id.in_(some)))
    return len(ids)
