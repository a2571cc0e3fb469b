"""This module defines a data point, and builds its JSON and the forms of time in it.

Google's JSON leaves out values that are zero or empty: midnight is a date and an empty time.
"""

from datetime import UTC, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate_sandbox.google_health.data_types import DataType


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement, from one moment to another or at one moment."""

    #: Seconds since the epoch.
    start_s: int
    end_s: int
    #: The fields of the data type other than the time.
    fields: JsonObject
    #: None means that the point has no id, like most points.
    id: int | None = None
    #: Entered by hand, not measured by a wearable.
    manual: bool = False


def point_shape(point: Point, data_type: DataType, user: str, offset_s: int) -> JsonObject:
    """The point as the API shows it."""
    if data_type.sampled:
        time: JsonObject = {"sampleTime": _sample_time(point.start_s, offset_s)}
    else:
        time = {"interval": _interval(point.start_s, point.end_s, offset_s)}
    shown: dict[str, object] = {}
    if point.id is not None:
        shown["name"] = f"users/{user}/dataTypes/{data_type.name}/dataPoints/{point.id}"
    return {
        **shown,
        "dataSource": _source(manual=point.manual),
        data_type.key: {**time, **point.fields},
    }


def civil(local_s: int) -> JsonObject:
    """A moment on the wall clock, given in seconds as if that clock were in UTC."""
    moment = datetime.fromtimestamp(local_s, UTC)
    time = {"hours": moment.hour, "minutes": moment.minute, "seconds": moment.second}
    return {
        "date": {"year": moment.year, "month": moment.month, "day": moment.day},
        "time": {name: value for name, value in time.items() if value},
    }


def moment_text(seconds: int) -> str:
    """Whole seconds since the epoch as `2026-01-01T00:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def segment(start_s: int, end_s: int, offset_s: int) -> JsonObject:
    """The JSON of a period in physical time, without the wall clock."""
    return {
        "startTime": moment_text(start_s),
        "startUtcOffset": f"{offset_s}s",
        "endTime": moment_text(end_s),
        "endUtcOffset": f"{offset_s}s",
    }


def _interval(start_s: int, end_s: int, offset_s: int) -> JsonObject:
    return {
        **segment(start_s, end_s, offset_s),
        "civilStartTime": civil(start_s + offset_s),
        "civilEndTime": civil(end_s + offset_s),
    }


def _sample_time(at_s: int, offset_s: int) -> JsonObject:
    return {
        "physicalTime": moment_text(at_s),
        "utcOffset": f"{offset_s}s",
        "civilTime": civil(at_s + offset_s),
    }


def _source(*, manual: bool) -> JsonObject:
    if manual:
        return {"recordingMethod": "MANUAL", "platform": "FITBIT"}
    device = {"formFactor": "FITNESS_BAND", "manufacturer": "Fitbit", "displayName": "Charge 6"}
    return {"recordingMethod": "PASSIVELY_MEASURED", "device": device, "platform": "FITBIT"}
