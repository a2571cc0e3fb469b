"""What is kept of activities besides their streams: reading it, and forgetting it all."""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter

from headgate import App, Item, JsonObject, from_json
from headgate.systems.activity_streams.names import (
    LIVE,
    STREAMS,
    activity_id,
    details_id,
    strava_id,
)

#: An activity's id, when something was told of it, and what.
Told = tuple[str, datetime, JsonObject]


async def details_of(app: App, wanted: Sequence[Item]) -> dict[str, JsonObject]:
    """What Strava has said of the activities of these stream items, by their ids.

    A list tells less than an activity in full, but it may be newer: what was told last counts.
    """
    told = [*await _read_in_full(app, wanted), *await _listed(app, wanted)]
    known: dict[str, dict[str, object]] = {}
    for item_id, _, data in sorted(told, key=itemgetter(1)):
        known.setdefault(item_id, {}).update(data)
    return dict(known)


async def _read_in_full(app: App, wanted: Sequence[Item]) -> list[Told]:
    """Also of those that are being read again: what was there stays true until then."""
    ids = {details_id(item.id): item.id for item in wanted}
    found: list[Told] = []
    for document in await app.items.documents_of(list(ids)):
        data = from_json(document.content())
        assert isinstance(data, dict)
        found.append((ids[document.item_id], document.fetched_at, data))
    return found


async def _listed(app: App, wanted: Sequence[Item]) -> list[Told]:
    connections = sorted({item.connection_id for item in wanted})
    keys = sorted({strava_id(item) for item in wanted})
    return [
        (activity_id(record.connection_id, record.key), record.updated_at, record.data)
        for record in await app.records.find((LIVE, STREAMS), connections, keys)
    ]


async def forget(app: App, connection_id: str, strava_id: str) -> bool:
    """Delete an activity with everything that was kept of it; whether there was any of it."""
    own = activity_id(connection_id, strava_id)
    # Twice is as good as once: an event that is told again finds nothing left.
    gone = await app.items.forget([own, details_id(own)])
    told = await app.records.forget((LIVE, STREAMS), connection_id, [strava_id])
    return gone + told > 0
