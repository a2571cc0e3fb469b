"""What is kept of activities besides their streams: reading it, and forgetting it all.

Statements on Headgate's tables, as plain functions for `Database.read` and `Database.write`.
"""

import gzip
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter

from sqlalchemy import Connection, delete, select

from headgate.base.encoding import JsonObject, from_json
from headgate.model.item import Item
from headgate.store.sql.tables import item_documents, items, records
from headgate.systems.activity_streams.names import (
    LIVE,
    STREAMS,
    activity_id,
    details_id,
    strava_id,
)

#: An activity's id, when something was told of it, and what.
Told = tuple[str, datetime, JsonObject]


def details_of(tx: Connection, wanted: Sequence[Item]) -> dict[str, JsonObject]:
    """What Strava has said of the activities of these stream items, by their ids.

    A list tells less than an activity in full, but it may be newer: what was told last counts.
    """
    told = sorted([*_read_in_full(tx, wanted), *_listed(tx, wanted)], key=itemgetter(1))
    known: dict[str, dict[str, object]] = {}
    for item_id, _, data in told:
        known.setdefault(item_id, {}).update(data)
    return dict(known)


def _read_in_full(tx: Connection, wanted: Sequence[Item]) -> list[Told]:
    """Also of those that are being read again: what was there stays true until then."""
    ids = {details_id(item.id): item.id for item in wanted}
    table = item_documents.c
    query = select(table.item_id, table.fetched_at, table.body).where(table.item_id.in_(ids))
    found: list[Told] = []
    for row in tx.execute(query):
        data = from_json(gzip.decompress(row.body))
        assert isinstance(data, dict)
        found.append((ids[row.item_id], row.fetched_at, data))
    return found


def _listed(tx: Connection, wanted: Sequence[Item]) -> list[Told]:
    table = records.c
    query = select(table.connection_id, table.key, table.data, table.updated_at).where(
        table.sync.in_((LIVE, STREAMS)),
        table.connection_id.in_({item.connection_id for item in wanted}),
        table.key.in_({strava_id(item) for item in wanted}),
    )
    return [
        (activity_id(row.connection_id, row.key), row.updated_at, row.data)
        for row in tx.execute(query)
    ]


def forget(tx: Connection, connection_id: str, strava_id: str) -> bool:
    """Delete an activity with everything that was kept of it; whether there was any of it."""
    own = activity_id(connection_id, strava_id)
    ids = sorted((own, details_id(own)))
    locked = select(items.c.id).where(items.c.id.in_(ids)).order_by(items.c.id).with_for_update()
    known = list(tx.execute(locked).scalars())
    tx.execute(delete(item_documents).where(item_documents.c.item_id.in_(ids)))
    tx.execute(delete(items).where(items.c.id.in_(ids)))
    told = tx.execute(
        delete(records).where(
            records.c.sync.in_((LIVE, STREAMS)),
            records.c.connection_id == connection_id,
            records.c.key == strava_id,
        )
    )
    return bool(known) or told.rowcount > 0
