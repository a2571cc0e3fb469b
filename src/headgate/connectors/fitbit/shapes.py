"""The parts of the Google Health API's JSON that we read, and the records made from them.

Google's JSON leaves out whatever is zero or empty, and writes long integers as text.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import Malformed

NAME_LENGTH_MAX = 200

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SECONDS = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?s")

#: A long integer, as text or as a number.
Whole = int | str


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of these structs; fields that are not declared are not read."""


class Day(Shape, frozen=True):
    """A calendar date."""

    year: int
    month: int
    day: int


class CivilTime(Shape, frozen=True):
    """A time in the person's own time zone."""

    date: Day


# ---- exercises ---------------------------------------------------------------------------------


class Interval(Shape, frozen=True):
    """The start and end of an exercise."""

    start_time: datetime
    end_time: datetime
    start_utc_offset: str = "0s"


class Metrics(Shape, frozen=True):
    """The totals of an exercise."""

    calories_kcal: float | None = None
    distance_millimeters: float | None = None
    elevation_gain_millimeters: float | None = None
    steps: Whole | None = None
    average_heart_rate_beats_per_minute: Whole | None = None


class Metadata(Shape, frozen=True):
    """How an exercise was recorded."""

    has_gps: bool = False


class Exercise(Shape, frozen=True):
    """An exercise."""

    interval: Interval
    exercise_type: str
    display_name: str = ""
    active_duration: str = "0s"
    metrics_summary: Metrics = Metrics()
    exercise_metadata: Metadata = Metadata()


class Device(Shape, frozen=True):
    """The device that recorded it."""

    display_name: str = ""


class DataSource(Shape, frozen=True):
    """The origin of a data point."""

    recording_method: str = ""
    device: Device = Device()


class ExercisePoint(Shape, frozen=True):
    """The data point of an exercise."""

    #: `users/{user}/dataTypes/exercise/dataPoints/{id}`
    name: str
    exercise: Exercise
    data_source: DataSource = DataSource()

    @property
    def id(self) -> str:
        """Google's id of the exercise; checked, because it becomes part of a URL."""
        last = self.name.rpartition("/")[2]
        if not _ID.fullmatch(last):
            raise Malformed("an exercise has an id that is not valid")
        return last


class ExercisePage(Shape, frozen=True):
    """A page of exercises; it may be empty."""

    data_points: tuple[ExercisePoint, ...] = ()


def exercise_data(point: ExercisePoint) -> JsonObject:
    """Return the record of an exercise; unknown fields are left out."""
    exercise, metrics = point.exercise, point.exercise.metrics_summary
    name = "".join(each for each in exercise.display_name if each.isprintable())
    return _without_none(
        source="fitbit",
        id=point.id,
        type=exercise.exercise_type,
        name=name[:NAME_LENGTH_MAX],
        started_at=exercise.interval.start_time,
        ended_at=exercise.interval.end_time,
        utc_offset_s=round(_seconds(exercise.interval.start_utc_offset)),
        active_s=_seconds(exercise.active_duration),
        has_gps=exercise.exercise_metadata.has_gps,
        manual=point.data_source.recording_method == "MANUAL",
        device=point.data_source.device.display_name or None,
        calories_kcal=metrics.calories_kcal,
        distance_m=_thousandth(metrics.distance_millimeters),
        climb_m=_thousandth(metrics.elevation_gain_millimeters),
        steps=_whole(metrics.steps),
        average_heart_rate=_whole(metrics.average_heart_rate_beats_per_minute),
    )


# ---- roll-ups ----------------------------------------------------------------------------------


class Steps(Shape, frozen=True):
    """Steps of a day."""

    count_sum: Whole = 0


class Distance(Shape, frozen=True):
    """The distance of a day."""

    millimeters_sum: Whole = 0


class Calories(Shape, frozen=True):
    """The calories of a day."""

    kcal_sum: float = 0.0


class HeartRate(Shape, frozen=True):
    """The heart rate of a day."""

    beats_per_minute_avg: float | None = None
    beats_per_minute_min: float | None = None
    beats_per_minute_max: float | None = None


class ActiveLevel(Shape, frozen=True):
    """Minutes at one level."""

    activity_level: str
    active_minutes_sum: Whole = 0


class ActiveMinutes(Shape, frozen=True):
    """Minutes by level."""

    active_minutes_rollup_by_activity_level: tuple[ActiveLevel, ...] = ()


class Weight(Shape, frozen=True):
    """The average weight of a day."""

    weight_grams_avg: float | None = None


class RollupPoint(Shape, frozen=True):
    """The totals of one day, for the requested data type."""

    civil_start_time: CivilTime
    steps: Steps | None = None
    distance: Distance | None = None
    total_calories: Calories | None = None
    heart_rate: HeartRate | None = None
    active_minutes: ActiveMinutes | None = None
    weight: Weight | None = None


class RollupPage(Shape, frozen=True):
    """The totals of the days that have any."""

    rollup_data_points: tuple[RollupPoint, ...] = ()

    def of(self, day: date) -> RollupPoint | None:
        """Return the totals of one day."""
        for each in self.rollup_data_points:
            start = each.civil_start_time.date
            if (start.year, start.month, start.day) == (day.year, day.month, day.day):
                return each
        return None


def summary_data(points: Iterable[RollupPoint]) -> JsonObject:
    """Return the record of a day; empty if nothing is known."""
    summary: dict[str, object] = {}
    for each in points:
        summary.update(_summary_fields(each))
    return summary


def _summary_fields(point: RollupPoint) -> JsonObject:
    heart, active, weight = point.heart_rate, point.active_minutes, point.weight
    levels = active.active_minutes_rollup_by_activity_level if active else ()
    minutes = {each.activity_level.lower(): _whole(each.active_minutes_sum) for each in levels}
    beats = heart and _without_none(
        average=heart.beats_per_minute_avg,
        least=heart.beats_per_minute_min,
        most=heart.beats_per_minute_max,
    )
    return _without_none(
        steps=_whole(point.steps.count_sum) if point.steps else None,
        distance_m=_thousandth(_whole(point.distance.millimeters_sum)) if point.distance else None,
        calories_kcal=point.total_calories.kcal_sum if point.total_calories else None,
        heart_rate=beats or None,
        active_minutes=minutes or None,
        weight_kg=_thousandth(weight.weight_grams_avg) if weight else None,
    )


# ---- small parts -------------------------------------------------------------------------------


def _without_none(**fields: object) -> dict[str, object]:
    known = {name: value for name, value in fields.items() if value is not None}
    plain: dict[str, object] = msgspec.to_builtins(known)
    return plain


def _whole(value: Whole | None) -> int | None:
    if value is None or isinstance(value, int):
        return value
    if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20):
        raise Malformed("a value is not a whole number")
    return int(value)


def _thousandth(value: float | None) -> float | None:
    return None if value is None else round(value / 1000, 3)


def _seconds(duration: str) -> float:
    if not _SECONDS.fullmatch(duration):
        raise Malformed("a value is not a duration")
    return float(duration[:-1])
