"""This module reads just enough of an uploaded file to make an activity of it, or to refuse it.

It reads start, duration, distance and sport from TCX and GPX. Of FIT it checks only the header,
since the rest needs a decoder that a sandbox has no other use for.
"""

import gzip
import io
import math
import zlib
from collections.abc import Iterator
from datetime import datetime
from xml.etree import ElementTree

import msgspec

DATA_TYPES = ("fit", "fit.gz", "tcx", "tcx.gz", "gpx", "gpx.gz")
UNPACKED_BYTES_MAX = 64 * 1024 * 1024

_SPORTS = {"running": "Run", "biking": "Ride", "walking": "Walk", "hiking": "Hike"}
_FIT_HEADER_BYTES = 12


class MalformedFile(Exception):
    """The file is not what its type says."""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says about its activity; a field is None if the file does not say."""

    start_s: int | None = None
    elapsed_s: int | None = None
    distance_m: float | None = None
    sport_type: str | None = None


def read_track(content: bytes, data_type: str) -> Track:
    """Read the track in the file; raises MalformedFile."""
    kind, _, packed = data_type.partition(".")
    if packed:
        content = _unpacked(content)
    if kind == "fit":
        if len(content) < _FIT_HEADER_BYTES or content[8:12] != b".FIT":
            raise MalformedFile("no FIT header")
        return Track()
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise MalformedFile(str(error)) from error
    return _read_tcx(root) if kind == "tcx" else _read_gpx(root)


def _read_tcx(root: ElementTree.Element) -> Track:
    if _tag(root) != "TrainingCenterDatabase":
        raise MalformedFile("no TrainingCenterDatabase")
    times = [_seconds(text) for text in _texts(root, "Id")] + _times(root, "Time")
    durations = [_number(text) for text in _texts(root, "TotalTimeSeconds")]
    laps = [each for each in root.iter() if _tag(each) == "Lap"]
    distances = [
        _number(child.text) for lap in laps for child in lap if _tag(child) == "DistanceMeters"
    ]
    activity = next((each for each in root.iter() if _tag(each) == "Activity"), None)
    if activity is None or not times:
        raise MalformedFile("no activity with a time")
    return Track(
        start_s=min(times),
        elapsed_s=int(sum(durations)) if durations else max(times) - min(times),
        distance_m=sum(distances) if distances else None,
        sport_type=_SPORTS.get(activity.get("Sport", "").lower()),
    )


def _read_gpx(root: ElementTree.Element) -> Track:
    times = _times(root, "time")
    if _tag(root) != "gpx" or not times:
        raise MalformedFile("no GPX track with times")
    kinds = [text.strip().lower() for text in _texts(root, "type")]
    return Track(
        start_s=min(times),
        elapsed_s=max(times) - min(times),
        sport_type=_SPORTS.get(kinds[0]) if kinds else None,
    )


def _unpacked(content: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(UNPACKED_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedFile(str(error)) from error
    if len(unpacked) > UNPACKED_BYTES_MAX:
        raise MalformedFile("too large once unpacked")
    return unpacked


def _tag(element: ElementTree.Element) -> str:
    """The element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def _texts(root: ElementTree.Element, tag: str) -> Iterator[str]:
    return (each.text or "" for each in root.iter() if _tag(each) == tag)


def _times(root: ElementTree.Element, tag: str) -> list[int]:
    return [_seconds(text) for text in _texts(root, tag)]


def _seconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise MalformedFile(f"{text!r} is no time") from error
    if moment.tzinfo is None:
        raise MalformedFile(f"{text!r} has no time zone")
    return int(moment.timestamp())


def _number(text: str | None) -> float:
    try:
        number = float(text or "")
    except ValueError as error:
        raise MalformedFile(f"{text!r} is no number") from error
    if not math.isfinite(number):
        raise MalformedFile(f"{text!r} is no number")
    return number
