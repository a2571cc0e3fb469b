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
from headgate.store.sql.items import TABLE
from headgate.store.sql.moment import Moment
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


def progress_of_connection(
    tx: Connection,
    collections: Sequence[str],
    connection_id: str,
    *,
    lane: Lane | None = None,
    since: datetime | None = None,
) -> ItemProgress:
    """How far a connection's items are, by a scan of those items alone."""
    left = and_(in_states(items, *ITEM.active), not_(STUCK))
    query = select(items.c.state, func.count(), func.sum(case((left, 1), else_=0))).where(
        items.c.connection_id == connection_id, items.c.collection.in_(collections)
    )
    if lane is not None:
        query = query.where(items.c.lane == lane)
    if since is not None:
        query = query.where(or_(left, items.c.updated_at >= since))
    rows = tx.execute(query.group_by(items.c.state)).all()
    counts = {row[0]: row[1] for row in rows}
    states = {state: counts.get(state, 0) for state in ItemState}
    return ItemProgress(states, sum(row[2] for row in rows))


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
