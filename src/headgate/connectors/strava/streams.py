"""Reads an activity's streams: its measurements, point by point."""

from collections.abc import Mapping, Sequence

import msgspec

from headgate.base.encoding import Json
from headgate.base.errors import Malformed, NoData
from headgate.model.item import Document
from headgate.ports.http import Http
from headgate.ports.transport import Response

#: The channels that are requested and stored. Strava sends distance in any case.
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
    """One channel; its other fields are the same for all, so they are not read."""

    data: list[Json]


class StreamAttributes(msgspec.Struct, frozen=True):
    """The attributes of a document of streams."""

    #: The names of the channels, in order.
    channels: tuple[str, ...]
    #: The number of points of each channel.
    point_count: int


class _NamedStream(Stream, frozen=True):
    """A stream in a list, which names its own channel."""

    type: str


async def fetch_streams(http: Http, activity_id: str) -> Document:
    """Fetch all channels; raises NoData if there are no points, Malformed if lengths differ."""
    answer = await http.get(
        f"/activities/{activity_id}/streams",
        {"keys": ",".join(KEYS), "key_by_type": "true"},
        not_found=NoData,
    )
    return streams_document(channels_of(answer))


def streams_document(channels: Mapping[str, Sequence[Json]]) -> Document:
    """Build the document of the channels, which must have the same length."""
    lengths = {len(values) for values in channels.values()}
    if len(lengths) > 1:
        counts = ", ".join(f"{name} {len(values)}" for name, values in sorted(channels.items()))
        raise Malformed(f"the channels are not of one length: {counts}")
    if not any(lengths):
        raise NoData("there are no points")
    attributes = StreamAttributes(tuple(sorted(channels)), max(lengths))
    return Document.of_json(channels, msgspec.structs.asdict(attributes))


def channels_of(answer: Response) -> Mapping[str, list[Json]]:
    """Return the known channels by name. Strava documents a list, but sends an object."""
    if not answer.body.lstrip().startswith(b"["):
        found: Mapping[str, Stream] = answer.json(dict[str, Stream])
    else:
        named = answer.json(list[_NamedStream])
        found = {each.type: each for each in named}
    return {name: found[name].data for name in sorted(KEYS) if name in found}
