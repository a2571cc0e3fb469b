"""What the Google Health API shows, as far as we read it, and the records that are made of it.

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
    """Something in an answer; fields that are not named here are not read."""


class Day(Shape, frozen=True):
    """A calendar date."""

    year: int
    month: int
    day: int


class CivilTime(Shape, frozen=True):
    """A moment on the wall clock of the person."""

    date: Day


# ---- exercises ---------------------------------------------------------------------------------


class Interval(Shape, frozen=True):
    """From when to when."""

    start_time: datetime
    end_time: datetime
    start_utc_offset: str = "0s"


class Metrics(Shape, frozen=True):
    """What an exercise came to."""

    calories_kcal: float | None = None
    distance_millimeters: float | None = None
    elevation_gain_millimeters: float | None = None
    steps: Whole | None = None
    average_heart_rate_beats_per_minute: Whole | None = None


class Metadata(Shape, frozen=True):
    """How an exercise was recorded."""

    has_gps: bool = False


class Exercise(Shape, frozen=True):
    """Something that someone did."""

    interval: Interval
    exercise_type: str
    display_name: str = ""
    active_duration: str = "0s"
    metrics_summary: Metrics = Metrics()
    exercise_metadata: Metadata = Metadata()


class Device(Shape, frozen=True):
    """What recorded it."""

    display_name: str = ""


class DataSource(Shape, frozen=True):
    """Where it comes from."""

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
        """What Google calls it; it becomes a part of addresses, so it is looked at closely."""
        last = self.name.rpartition("/")[2]
        if not _ID.fullmatch(last):
            raise Malformed("an exercise has an id that cannot be one")
        return last


class ExercisePage(Shape, frozen=True):
    """A page of exercises; without any where there are none."""

    data_points: tuple[ExercisePoint, ...] = ()


def exercise_data(point: ExercisePoint) -> JsonObject:
    """What is remembered of an exercise; what is not known is left out."""
    exercise, metrics = point.exercise, point.exercise.metrics_summary
    name = "".join(each for each in exercise.display_name if each.isprintable())
    return _known(
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
    """The way of a day."""

    millimeters_sum: Whole = 0


class Calories(Shape, frozen=True):
    """What was burnt in a day."""

    kcal_sum: float = 0.0


class HeartRate(Shape, frozen=True):
    """The heart in a day."""

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
    """The weight in a day, on the average."""

    weight_grams_avg: float | None = None


class RollupPoint(Shape, frozen=True):
    """The sums of one day: those of the type that was asked for."""

    civil_start_time: CivilTime
    steps: Steps | None = None
    distance: Distance | None = None
    total_calories: Calories | None = None
    heart_rate: HeartRate | None = None
    active_minutes: ActiveMinutes | None = None
    weight: Weight | None = None


class RollupPage(Shape, frozen=True):
    """The sums of the days that have any."""

    rollup_data_points: tuple[RollupPoint, ...] = ()

    def of(self, day: date) -> RollupPoint | None:
        """Those of one day."""
        for each in self.rollup_data_points:
            start = each.civil_start_time.date
            if (start.year, start.month, start.day) == (day.year, day.month, day.day):
                return each
        return None


def summary_data(points: Iterable[RollupPoint]) -> JsonObject:
    """What is remembered of a day; empty where nothing is known of it."""
    summary: dict[str, object] = {}
    for each in points:
        summary.update(_summed(each))
    return summary


def _summed(point: RollupPoint) -> JsonObject:
    heart, active, weight = point.heart_rate, point.active_minutes, point.weight
    levels = active.active_minutes_rollup_by_activity_level if active else ()
    minutes = {each.activity_level.lower(): _whole(each.active_minutes_sum) for each in levels}
    beats = heart and _known(
        average=heart.beats_per_minute_avg,
        least=heart.beats_per_minute_min,
        most=heart.beats_per_minute_max,
    )
    return _known(
        steps=_whole(point.steps.count_sum) if point.steps else None,
        distance_m=_thousandth(_whole(point.distance.millimeters_sum)) if point.distance else None,
        calories_kcal=point.total_calories.kcal_sum if point.total_calories else None,
        heart_rate=beats or None,
        active_minutes=minutes or None,
        weight_kg=_thousandth(weight.weight_grams_avg) if weight else None,
    )


# ---- small parts -------------------------------------------------------------------------------


def _known(**fields: object) -> dict[str, object]:
    given = {name: value for name, value in fields.items() if value is not None}
    plain: dict[str, object] = msgspec.to_builtins(given)
    return plain


def _whole(value: Whole | None) -> int | None:
    if value is None or isinstance(value, int):
        return value
    if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20):
        raise Malformed("a whole number is none")
    return int(value)


def _thousandth(value: float | None) -> float | None:
    return None if value is None else round(value / 1000, 3)


def _seconds(duration: str) -> float:
    if not _SECONDS.fullmatch(duration):
        raise Malformed("a duration is none")
    return float(duration[:-1])
