"""Counts of items, for operators.

They are computed by index scans. Stored counters would be a bottleneck, because every settled item
would have to lock them. A million items take a tenth of a second, so callers should cache a count.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, case, func, not_, or_, select

from headgate.model.job import Lane
from headgate.model.states import ITEM, ItemState
from headgate.ports.items import ItemCounts, ItemProgress
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.items.rows import TABLE
from headgate.store.sql.tables import STUCK, in_states, items


def count_items(tx: Connection, collection: str) -> ItemCounts:
    """The counts of a collection's items, by a scan of an index alone."""
    mine = items.c.collection == collection
    retries = (
        select(items.c.retry_count, func.count())
        .where(mine, in_states(items, ItemState.FAILED))
        .group_by(items.c.retry_count)
        .order_by(items.c.retry_count)
    )
    return ItemCounts(
        states=TABLE.count_by_state(tx, mine),
        retries={row[0]: row[1] for row in tx.execute(retries)},
    )


def progress_of_connections(
    tx: Connection,
    of: Sequence[tuple[str, str]],
    *,
    lane: Lane | None = None,
    since: datetime | None = None,
) -> dict[tuple[str, str], ItemProgress]:
    """How far the items of each collection and connection are, by a scan of those items alone."""
    left = and_(in_states(items, *ITEM.active), not_(STUCK))
    place = (items.c.collection, items.c.connection_id)
    query = select(*place, items.c.state, func.count(), func.sum(case((left, 1), else_=0))).where(
        # Not by pairs: SQLite would walk over the whole index.
        items.c.collection.in_({collection for collection, _ in of}),
        items.c.connection_id.in_({connection_id for _, connection_id in of}),
    )
    if lane is not None:
        query = query.where(items.c.lane == lane)
    if since is not None:
        query = query.where(or_(left, items.c.updated_at >= since))
    states = {each: dict.fromkeys(ItemState, 0) for each in of}
    lefts = dict.fromkeys(of, 0)
    for *pair, state, count, some in tx.execute(query.group_by(*place, items.c.state)):
        if (each := (pair[0], pair[1])) in states:
            states[each][state] = count
            lefts[each] += some
    return {each: ItemProgress(states[each], lefts[each]) for each in states}


def progress(tx: Connection, collection: str, user_id: str) -> Mapping[ItemState, int]:
    """The number of a user's items in each state, by six index look-ups."""
    return TABLE.count_by_state(
        tx,
        items.c.collection == collection,
        items.c.user_id == user_id,
        # All six states are named, so that the index, whose next column is the user, can be used.
        in_states(items, *ItemState),
    )


def count_stuck(tx: Connection, collection: str) -> int:
    """The number of items that failed for good."""
    query = select(func.count()).select_from(items).where(items.c.collection == collection, STUCK)
    return int(tx.execute(query).scalar_one())


def count_limited(tx: Connection, now: Moment, collection: str, *, within: timedelta) -> int:
    """The number of items that the provider's rate limit refused in that time."""
    query = (
        select(func.count())
        .select_from(items)
        .where(
            items.c.collection == collection,
            items.c.limited_at.is_not(None),
            items.c.limited_at > now.at(-within),
        )
    )
    return int(tx.execute(query).scalar_one())
