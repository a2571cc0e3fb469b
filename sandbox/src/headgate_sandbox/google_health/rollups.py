"""This module computes daily roll-ups: it reads the request, and sums the points of each day."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from headgate.base.encoding import JsonObject
from headgate_sandbox.google_health.answers import invalid
from headgate_sandbox.google_health.data_types import DataType
from headgate_sandbox.google_health.point import Point, civil

DAY_S = 86_400


class Date(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A calendar date."""

    year: int = 0
    month: int = 0
    day: int = 0


class Midnight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The beginning of a day on the wall clock."""

    date: Date

    def day(self, field: str) -> int:
        """Its number, counted from the epoch."""
        date = self.date
        try:
            moment = datetime(date.year, date.month, date.day, tzinfo=UTC)
        except (ValueError, OverflowError):
            raise invalid(field, "no such civil time") from None
        return int(moment.timestamp()) // DAY_S


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range from `start` up to `end`, without the end itself."""

    start: Midnight
    end: Midnight


class RollUp(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A client's request: as far as it is known to be sent, each day by itself, on one page."""

    range: Range
    window_size_days: Literal[1] = 1


def days_of(asked: RollUp, data_type: DataType) -> range:
    """The days of the range, newest first; answers with an error if the range is wrong."""
    if data_type.rollup_days_max is None:
        raise invalid("parent", f"{data_type.name} cannot be rolled up")
    start, end = asked.range.start.day("range.start"), asked.range.end.day("range.end")
    if end <= start:
        raise invalid("range.end", "must be later than the start")
    if end - start > data_type.rollup_days_max:
        raise invalid("range", f"the maximum range is {data_type.rollup_days_max} days")
    return range(end - 1, start - 1, -1)


def shape(day: int, data_type: DataType, points: Sequence[Point]) -> JsonObject:
    """A day as the API shows it; it must have points."""
    return {
        "civilStartTime": civil(day * DAY_S),
        "civilEndTime": civil((day + 1) * DAY_S),
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
