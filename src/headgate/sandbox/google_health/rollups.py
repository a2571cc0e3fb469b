"""This module computes daily roll-ups: it reads the request, cuts windows and sums their points."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate.sandbox.google_health.answers import invalid
from headgate.sandbox.google_health.data_types import DataType
from headgate.sandbox.google_health.point import Point, civil

DAY_S = 86_400


class Date(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A calendar date."""

    year: int = 0
    month: int = 0
    day: int = 0


class TimeOfDay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time on the wall clock; midnight by default."""

    hours: int = 0
    minutes: int = 0
    seconds: int = 0
    nanos: int = 0


class CivilDateTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A moment on the wall clock."""

    date: Date
    time: TimeOfDay = TimeOfDay()

    def seconds(self, field: str) -> int:
        """Seconds since the epoch, as if the wall clock were in UTC."""
        date, time = self.date, self.time
        try:
            moment = datetime(
                date.year,
                date.month,
                date.day,
                time.hours,
                time.minutes,
                time.seconds,
                tzinfo=UTC,
            )
        except (ValueError, OverflowError):
            raise invalid(field, "no such civil time") from None
        return int(moment.timestamp())


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range from `start` up to `end`, without the end itself."""

    start: CivilDateTime
    end: CivilDateTime


class RollUp(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A client's request. A zero counts as not given, as everywhere at Google."""

    range: Range
    window_size_days: int = 0
    page_size: int = 0
    page_token: str = ""
    data_source_family: str = ""


class Window(msgspec.Struct, frozen=True):
    """One period to sum up, in seconds on the wall clock."""

    start_s: int
    end_s: int

    @property
    def days(self) -> range:
        """The days that the window touches."""
        return range(self.start_s // DAY_S, -(-self.end_s // DAY_S))


def windows_of(asked: RollUp, data_type: DataType) -> list[Window]:
    """The windows of the range, newest first; answers with an error if the range is wrong."""
    if data_type.rollup_days_max is None:
        raise invalid("parent", f"{data_type.name} cannot be rolled up")
    start_s, end_s = asked.range.start.seconds("range.start"), asked.range.end.seconds("range.end")
    if start_s % DAY_S:
        raise invalid("range.start", "must be aligned with the aggregation window")
    if end_s <= start_s:
        raise invalid("range.end", "must be later than the start")
    if end_s - start_s > data_type.rollup_days_max * DAY_S:
        raise invalid("range", f"the maximum range is {data_type.rollup_days_max} days")
    if asked.window_size_days < 0:
        raise invalid("window_size_days", "must be positive")
    size_s = (asked.window_size_days or 1) * DAY_S
    starts = range(start_s, end_s, size_s)
    return [Window(begin, min(begin + size_s, end_s)) for begin in reversed(starts)]


def page_size_of(asked: RollUp, data_type: DataType) -> int:
    """How many windows go on a page; the default is the maximum."""
    assert data_type.rollup_days_max is not None
    if asked.page_size < 0:
        raise invalid("page_size", "must not be negative")
    return min(asked.page_size or data_type.rollup_days_max, data_type.rollup_days_max)


def shape(window: Window, data_type: DataType, points: Sequence[Point]) -> JsonObject:
    """A window as the API shows it; the window must have points."""
    return {
        "civilStartTime": civil(window.start_s),
        "civilEndTime": civil(window.end_s),
        data_type.key: _VALUES[data_type.name](points),
    }


def _steps(points: Sequence[Point]) -> JsonObject:
    return {"countSum": str(sum(_whole(points, "count")))}


def _distance(points: Sequence[Point]) -> JsonObject:
    return {"millimetersSum": str(sum(_whole(points, "millimeters")))}


def _total_calories(points: Sequence[Point]) -> JsonObject:
    return {"kcalSum": round(sum(_numbers(points, "kcal")), 2)}


def _heart_rate(points: Sequence[Point]) -> JsonObject:
    beats = _whole(points, "beatsPerMinute")
    return {
        "beatsPerMinuteAvg": round(sum(beats) / len(beats), 2),
        "beatsPerMinuteMax": max(beats),
        "beatsPerMinuteMin": min(beats),
    }


def _weight(points: Sequence[Point]) -> JsonObject:
    grams = _numbers(points, "weightGrams")
    return {"weightGramsAvg": round(sum(grams) / len(grams), 1)}


def _active_minutes(points: Sequence[Point]) -> JsonObject:
    sums: dict[str, int] = {}
    for point in points:
        for level in msgspec.convert(point.fields["activeMinutesByActivityLevel"], list[_Level]):
            sums[level.activityLevel] = sums.get(level.activityLevel, 0) + int(level.activeMinutes)
    return {
        "activeMinutesRollupByActivityLevel": [
            {"activityLevel": level, "activeMinutesSum": str(total)}
            for level, total in sorted(sums.items())
        ]
    }


class _Level(msgspec.Struct, frozen=True):
    activityLevel: str
    activeMinutes: str


def _whole(points: Sequence[Point], field: str) -> list[int]:
    return [int(str(point.fields[field])) for point in points]


def _numbers(points: Sequence[Point], field: str) -> list[float]:
    return [float(str(point.fields[field])) for point in points]


_VALUES: dict[str, Callable[[Sequence[Point]], JsonObject]] = {
    "steps": _steps,
    "distance": _distance,
    "total-calories": _total_calories,
    "heart-rate": _heart_rate,
    "weight": _weight,
    "active-minutes": _active_minutes,
}
