"""The HTTP response with an activity's streams: whole, as they are stored, or a selection.

If the client accepts gzip, the whole is sent in the bytes that are stored; only the metadata around
them is new. For a selection of channels or points the document is decompressed once, and channels
that are not selected are not even parsed.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from typing import Annotated

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from headgate import InvalidInput
from headgate.connectors.strava import NAME
from headgate.systems.activity_streams.documents import HINTS
from headgate.systems.activity_streams.downsampling import METHOD, pick_points
from headgate.systems.activity_streams.service import StreamDocument, Streams
from headgate.systems.activity_streams.splicing import splice
from headgate.toolkit import explain_item

#: The channels that Strava may have.
CHANNELS = (
    "time",
    "distance",
    "latlng",
    "altitude",
    "velocity_smooth",
    "heartrate",
    "cadence",
    "watts",
    "temp",
    "moving",
    "grade_smooth",
)
#: The number of points of each resolution, by Strava's names.
RESOLUTIONS = {"low": 100, "medium": 1000, "high": 10_000}
POINTS_MIN, POINTS_MAX = 2, RESOLUTIONS["high"]
#: Longer than all names of channels together.
_CHANNELS_LENGTH_MAX = 500
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}

Raws = Mapping[str, msgspec.Raw]


class Selection(msgspec.Struct, frozen=True):
    """The channels and points that a request selects; None: all."""

    channels: tuple[str, ...] | None = None
    points: int | None = None


async def parse_selection(
    channels: Annotated[
        str | None,
        Query(
            max_length=_CHANNELS_LENGTH_MAX,
            pattern=r"^[a-z_]+(,[a-z_]+)*$",
            description="Only these channels, separated by commas. Points are chosen by the shape "
            "of the first that has one; add `time` to draw them over time.",
            examples=["heartrate,altitude,time"],
        ),
    ] = None,
    resolution: Annotated[
        str | None,
        Query(
            pattern="^(low|medium|high)$",
            description="At most 100, 1,000 or 10,000 points, as Strava names them.",
        ),
    ] = None,
    points: Annotated[
        int | None,
        Query(ge=POINTS_MIN, le=POINTS_MAX, description="At most this many points."),
    ] = None,
) -> Selection:
    """Parse the selection in a request's query."""
    if resolution is not None and points is not None:
        raise InvalidInput("points", "use either `points` or `resolution`, not both")
    chosen = None if channels is None else tuple(dict.fromkeys(channels.split(",")))
    return Selection(chosen, points if resolution is None else RESOLUTIONS[resolution])


def streams_response(request: Request, streams: Streams, wanted: Selection) -> Response:
    """Return the streams with their ETag, or 304 if the client has that version."""
    document = streams.document
    _check(wanted, document)
    metadata = _metadata(streams)
    whole = document is not None and wanted == Selection()
    gzip = whole and accepts_gzip(request)
    tag = _tag(metadata, document, wanted, gzip=gzip)
    headers = {**_HEADERS, "ETag": tag}
    if _has_tag(request, tag):
        return Response(status_code=304, headers=headers)
    if document is None:
        return _json(_whole_json(metadata, None), headers)
    if gzip:
        body = splice(_head(metadata), document.stored.body, b"}")
        if body is not None:
            return _json(body, {**headers, "Content-Encoding": document.stored.encoding})
    return _json(_selected_json(metadata, document, wanted), headers)


def _check(wanted: Selection, document: StreamDocument | None) -> None:
    known = dict.fromkeys((*CHANNELS, *(document.attributes.channels if document else ())))
    for name in wanted.channels or ():
        if name not in known:
            raise InvalidInput("channels", f"there is no {name!r}; there are: {', '.join(known)}")


def _metadata(streams: Streams) -> dict[str, object]:
    """Return all fields of the document but the streams themselves."""
    item, document = streams.item, streams.document
    return {
        "activity_id": item.id,
        "status": item.state,
        "hint": HINTS[item.state],
        "source": NAME if document else None,
        "fetched_at": document.stored.fetched_at if document else None,
        "channels_available": document.attributes.channels if document else None,
        "point_count": document.attributes.point_count if document else None,
        "error": explain_item(item),
        "retry_count": item.retry_count,
        "deferred_until": item.deferred_until,
        "downsampled": None,
    }


def _head(metadata: Mapping[str, object]) -> bytes:
    """Return the JSON before the streams; only a closing brace comes after them."""
    return msgspec.json.encode(metadata)[:-1] + b',"stream_data":'


def _json(body: bytes, headers: Mapping[str, str]) -> Response:
    return Response(body, media_type="application/json", headers=headers)


# ---- selections --------------------------------------------------------------------------------

_raws = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _selected_json(
    metadata: dict[str, object], document: StreamDocument, wanted: Selection
) -> bytes:
    """Return the document as plain JSON, with the selected channels and points."""
    raws, size = channels_of(document), document.attributes.point_count
    names = [name for name in wanted.channels or sorted(raws) if name in raws]
    if wanted.points is None or wanted.points >= size:
        return _whole_json(metadata, {name: raws[name] for name in names})
    chosen, method = downsample(raws, names, wanted.points, of=size)
    return _whole_json({**metadata, "downsampled": method}, chosen)


def _whole_json(metadata: Mapping[str, object], channels: Mapping[str, object] | None) -> bytes:
    return msgspec.json.encode({**metadata, "stream_data": channels})


def channels_of(document: StreamDocument) -> Raws:
    """Return the channels, each as undecoded JSON."""
    return _raws.decode(document.stored.content())


def downsample(
    raws: Raws, names: Sequence[str], points: int, *, of: int
) -> tuple[dict[str, list[object]], dict[str, object]]:
    """Reduce the channels to the same `points` points; also return how they were chosen."""
    needed = {*names, "time", "distance"} & raws.keys()
    values = {name: msgspec.json.decode(raws[name], type=list[object]) for name in needed}
    picked = pick_points(values, names, points, size=of)
    kept = set(picked.indices)
    mask = [place in kept for place in range(of)]
    chosen = {name: list(compress(values[name], mask)) for name in names}
    method: dict[str, object] = {
        "method": METHOD,
        "points": len(picked.indices),
        "of": of,
        "by": picked.by,
    }
    return chosen, method


# ---- caching and encoding ----------------------------------------------------------------------


def _tag(
    metadata: Mapping[str, object],
    document: StreamDocument | None,
    wanted: Selection,
    *,
    gzip: bool,
) -> str:
    """Return a strong ETag: responses that differ in a byte, or in encoding, differ in it."""
    parts = (metadata, document.stored.hash if document else None, wanted, gzip)
    return f'"{blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()}"'


def _has_tag(request: Request, tag: str) -> bool:
    tags = ",".join(request.headers.getlist("if-none-match"))
    known = {each.strip().removeprefix("W/") for each in tags.split(",")}
    return tag in known or "*" in known


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts gzip (RFC 9110, 12.5.3)."""
    weights: dict[str, float] = {}
    for each in ",".join(request.headers.getlist("accept-encoding")).split(","):
        name, _, parameters = each.partition(";")
        weights[name.strip().lower()] = _weight(parameters)
    named = [weights[name] for name in ("gzip", "x-gzip", "*") if name in weights]
    return bool(named) and named[0] > 0


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
