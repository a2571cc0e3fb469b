"""An activity's streams as an answer: whole, as they are stored; or some of them.

The whole goes out in the bytes that it is kept in, wherever the client takes gzip: only the few
words around it are new. For a choice of channels or of points it is unpacked, once, and what was
not asked for is not even parsed.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from typing import Annotated

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from headgate import InvalidInput, explain_item
from headgate.connectors.strava.api import NAME
from headgate.systems.activity_streams.documents import HINTS
from headgate.systems.activity_streams.downsampling import METHOD, pick
from headgate.systems.activity_streams.service import StreamDocument, Streams
from headgate.systems.activity_streams.splicing import spliced

#: What Strava may have of an activity.
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
#: As Strava names them.
RESOLUTIONS = {"low": 100, "medium": 1000, "high": 10_000}
POINTS_MIN, POINTS_MAX = 2, RESOLUTIONS["high"]
#: Longer than all names together.
_CHANNELS_LENGTH_MAX = 500
_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}

Raws = Mapping[str, msgspec.Raw]


class Selection(msgspec.Struct, frozen=True):
    """What is asked for: all of it, unless these say otherwise."""

    channels: tuple[str, ...] | None = None
    points: int | None = None


async def selection(
    channels: Annotated[
        str | None,
        Query(
            max_length=_CHANNELS_LENGTH_MAX,
            pattern=r"^[a-z_]+(,[a-z_]+)*$",
            description="Only these, parted by commas. Points are chosen by the first of them "
            "that has a shape; ask for `time` too to lay them out.",
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
        Query(ge=POINTS_MIN, le=POINTS_MAX, description="At most so many, in place of a name."),
    ] = None,
) -> Selection:
    """The choice that a request's query makes."""
    if resolution is not None and points is not None:
        raise InvalidInput("points", "say either `points` or `resolution`, not both")
    chosen = None if channels is None else tuple(dict.fromkeys(channels.split(",")))
    return Selection(chosen, points if resolution is None else RESOLUTIONS[resolution])


def served(request: Request, streams: Streams, wanted: Selection) -> Response:
    """The streams, tagged; 304 where the asker has these very ones."""
    document = streams.document
    _check(wanted, document)
    words = _words(streams)
    whole = document is not None and wanted == Selection()
    gzip = whole and takes_gzip(request)
    tag = _tag(words, document, wanted, gzip=gzip)
    headers = {**_HEADERS, "ETag": tag}
    if _has(request, tag):
        return Response(status_code=304, headers=headers)
    if document is None:
        return _json(_with(words, None), headers)
    if gzip:
        body = spliced(_head(words), document.stored.body, b"}")
        if body is not None:
            return _json(body, {**headers, "Content-Encoding": document.stored.encoding})
    return _json(_composed(words, document, wanted), headers)


def _check(wanted: Selection, document: StreamDocument | None) -> None:
    known = dict.fromkeys((*CHANNELS, *(document.attributes.channels if document else ())))
    for name in wanted.channels or ():
        if name not in known:
            raise InvalidInput("channels", f"there is no {name!r}; there are: {', '.join(known)}")


def _words(streams: Streams) -> dict[str, object]:
    """All but the streams themselves."""
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


def _head(words: Mapping[str, object]) -> bytes:
    """What comes before the streams; after them comes a brace."""
    return msgspec.json.encode(words)[:-1] + b',"stream_data":'


def _json(body: bytes, headers: Mapping[str, str]) -> Response:
    return Response(body, media_type="application/json", headers=headers)


# ---- some of it --------------------------------------------------------------------------------

_raws = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _composed(words: dict[str, object], document: StreamDocument, wanted: Selection) -> bytes:
    """The answer as plain JSON, made of what was asked for."""
    raws, size = channels_of(document), document.attributes.point_count
    names = [name for name in wanted.channels or sorted(raws) if name in raws]
    if wanted.points is None or wanted.points >= size:
        return _with(words, {name: raws[name] for name in names})
    chosen, told = downsampled(raws, names, wanted.points, of=size)
    return _with({**words, "downsampled": told}, chosen)


def _with(words: Mapping[str, object], channels: Mapping[str, object] | None) -> bytes:
    return msgspec.json.encode({**words, "stream_data": channels})


def channels_of(document: StreamDocument) -> Raws:
    """The channels, each as the text that it is kept in."""
    return _raws.decode(document.stored.content())


def downsampled(
    raws: Raws, names: Sequence[str], points: int, *, of: int
) -> tuple[dict[str, list[object]], dict[str, object]]:
    """Those channels with so many points, all the same ones; and what is told about it."""
    needed = {*names, "time", "distance"} & raws.keys()
    values = {name: msgspec.json.decode(raws[name], type=list[object]) for name in needed}
    picked = pick(values, names, points, size=of)
    kept = set(picked.indices)
    mask = [place in kept for place in range(of)]
    chosen = {name: list(compress(values[name], mask)) for name in names}
    told: dict[str, object] = {
        "method": METHOD,
        "points": len(picked.indices),
        "of": of,
        "by": picked.by,
    }
    return chosen, told


# ---- what the client has and takes -------------------------------------------------------------


def _tag(
    words: Mapping[str, object],
    document: StreamDocument | None,
    wanted: Selection,
    *,
    gzip: bool,
) -> str:
    """Strong: another for every answer that differs by a byte, its encoding included."""
    parts = (words, document.stored.hash if document else None, wanted, gzip)
    return f'"{blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()}"'


def _has(request: Request, tag: str) -> bool:
    asked = ",".join(request.headers.getlist("if-none-match"))
    known = {each.strip().removeprefix("W/") for each in asked.split(",")}
    return tag in known or "*" in known


def takes_gzip(request: Request) -> bool:
    """Whether the client says that it reads gzip (RFC 9110, 12.5.3)."""
    weights: dict[str, float] = {}
    for each in ",".join(request.headers.getlist("accept-encoding")).split(","):
        name, _, parameters = each.partition(";")
        weights[name.strip().lower()] = _weight(parameters)
    said = [weights[name] for name in ("gzip", "x-gzip", "*") if name in weights]
    return bool(said) and said[0] > 0


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
