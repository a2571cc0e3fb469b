"""How many items are where: what operators look at.

Counted along indexes, not kept in rows of their own, which every settled item would have to wait
for: a million items are walked in a tenth of a second, so whoever shows it should keep the answer.
"""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import Connection, func, select

from headgate.model.states import ItemState
from headgate.ports.items import ItemCounts
from headgate.store.sql.items import TABLE
from headgate.store.sql.moment import Moment
from headgate.store.sql.tables import STUCK, in_states, items


def count_items(tx: Connection, collection: str) -> ItemCounts:
    """How all items of a collection stand: one walk along an index, without touching a row."""
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
    tx: Connection, collection: str, connection_id: str
) -> Mapping[ItemState, int]:
    """How many of a connection's items are in each state: a walk over those alone."""
    mine = (items.c.connection_id == connection_id, items.c.collection == collection)
    return TABLE.count_by_state(tx, *mine)


def progress(tx: Connection, collection: str, user_id: str) -> Mapping[ItemState, int]:
    """How many of a user's items are in each state: six looks into an index."""
    return TABLE.count_by_state(
        tx,
        items.c.collection == collection,
        items.c.user_id == user_id,
        # All six named: then the user, who comes after the state in the index, is looked up.
        in_states(items, *ItemState),
    )


def count_stuck(tx: Connection, collection: str) -> int:
    """How many have failed for good."""
    query = select(func.count()).select_from(items).where(items.c.collection == collection, STUCK)
    return int(tx.execute(query).scalar_one())


def count_limited(tx: Connection, now: Moment, collection: str, *, within: timedelta) -> int:
    """How many were refused by the provider's limit in that time."""
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
