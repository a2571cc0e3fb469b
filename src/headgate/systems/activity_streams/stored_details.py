"""The stored details of activities: reads them, and deletes an activity with all its data."""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter

from headgate import App, Item, JsonObject
from headgate.systems.activity_streams.names import (
    LIVE,
    STREAMS,
    activity_id,
    details_id,
    strava_id,
)
from headgate.toolkit import from_json

#: An activity's id, the time of the details, and the details.
ActivityDetails = tuple[str, datetime, JsonObject]


async def details_of(app: App, wanted: Sequence[Item]) -> dict[str, JsonObject]:
    """Return the details of the activities of these stream items, by their ids.

    A list has fewer fields than an activity in full, but may be newer: the latest value counts.
    """
    parts = [*await _details_in_full(app, wanted), *await _details_from_lists(app, wanted)]
    known: dict[str, dict[str, object]] = {}
    for item_id, _, data in sorted(parts, key=itemgetter(1)):
        known.setdefault(item_id, {}).update(data)
    return dict(known)


async def _details_in_full(app: App, wanted: Sequence[Item]) -> list[ActivityDetails]:
    """Return the details read in full; those being read again count until the new ones come."""
    ids = {details_id(item.id): item.id for item in wanted}
    found: list[ActivityDetails] = []
    for document in await app.items.documents_of(list(ids)):
        data = from_json(document.content())
        assert isinstance(data, dict)
        found.append((ids[document.item_id], document.fetched_at, data))
    return found


async def _details_from_lists(app: App, wanted: Sequence[Item]) -> list[ActivityDetails]:
    connections = sorted({item.connection_id for item in wanted})
    keys = sorted({strava_id(item) for item in wanted})
    return [
        (activity_id(record.connection_id, record.key), record.updated_at, record.data)
        for record in await app.records.find((LIVE, STREAMS), connections, keys)
    ]


async def forget(app: App, connection_id: str, strava_id: str) -> bool:
    """Delete an activity with all its data; return whether there was any.

    A job that is reading it does not bring it back, and a repeated event finds nothing left.
    """
    own = activity_id(connection_id, strava_id)
    deleted = await app.items.delete(
        [own, details_id(own)],
        connection_id=connection_id,
        syncs=(LIVE, STREAMS),
        keys=[strava_id],
    )
    return deleted > 0
