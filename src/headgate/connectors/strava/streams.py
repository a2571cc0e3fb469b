"""Reading an activity's streams: what was measured, point by point."""

from collections.abc import Mapping

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import NoData
from headgate.connectors.strava.api import NAME
from headgate.model.item import Document, document_of
from headgate.ports.connector import Http
from headgate.ports.transport import Response

#: What is asked for, and what is kept: Strava sends distance whether it is asked for or not.
KEYS = (
    "time",
    "distance",
    "latlng",
    "altitude",
    "velocity_smooth",
    "heartrate",
    "cadence",
    "grade_smooth",
    "moving",
)


class Stream(msgspec.Struct, frozen=True):
    """One channel; what else Strava says of it is the same for all."""

    data: list[Json]


class _Named(Stream, frozen=True):
    """In a list a stream says itself what it is."""

    type: str


async def fetch_streams(http: Http, activity_id: str) -> Document:
    """All points of all channels; NoData where there are none, Malformed where they do not fit."""
    answer = await http.get(
        f"/activities/{activity_id}/streams",
        {"keys": ",".join(KEYS), "key_by_type": "true"},
        not_found=NoData,
    )
    return document_of(channels_of(answer), source=NAME)


def channels_of(answer: Response) -> Mapping[str, list[Json]]:
    """The channels that we know, by name. Strava's documents show a list, its answers an object."""
    if not answer.body.lstrip().startswith(b"["):
        found: Mapping[str, Stream] = answer.json(dict[str, Stream])
    else:
        named = answer.json(list[_Named])
        found = {each.type: each for each in named}
    return {name: found[name].data for name in sorted(KEYS) if name in found}
