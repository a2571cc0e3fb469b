"""Reading an activity's streams: what was measured, point by point."""

from collections.abc import Mapping, Sequence

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import Malformed, NoData
from headgate.model.item import Document
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


class StreamAttributes(msgspec.Struct, frozen=True):
    """What a document of streams says of itself without being opened: its attributes."""

    #: Their names, in order.
    channels: tuple[str, ...]
    #: How many points each of them has.
    point_count: int


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
    return streams_document(channels_of(answer))


def streams_document(channels: Mapping[str, Sequence[Json]]) -> Document:
    """A document of channels, which must be of one length; NoData where there are no points."""
    lengths = {len(values) for values in channels.values()}
    if len(lengths) > 1:
        told = ", ".join(f"{name} {len(values)}" for name, values in sorted(channels.items()))
        raise Malformed(f"the channels are not of one length: {told}")
    if not any(lengths):
        raise NoData("there are no points")
    attributes = StreamAttributes(tuple(sorted(channels)), max(lengths))
    return Document.of_json(channels, msgspec.structs.asdict(attributes))


def channels_of(answer: Response) -> Mapping[str, list[Json]]:
    """The channels that we know, by name. Strava's documents show a list, its answers an object."""
    if not answer.body.lstrip().startswith(b"["):
        found: Mapping[str, Stream] = answer.json(dict[str, Stream])
    else:
        named = answer.json(list[_Named])
        found = {each.type: each for each in named}
    return {name: found[name].data for name in sorted(KEYS) if name in found}
