"""This module defines an exercise, draws exercises from the seed, and builds their JSON."""

import msgspec

from headgate.base.encoding import JsonObject
from headgate_sandbox.google_health.day import Day
from headgate_sandbox.google_health.person import session_id
from headgate_sandbox.google_health.point import Point, moment_text, segment
from headgate_sandbox.kit.seeded import draw

#: Type, Google's name for it, its share, and its speed in metres a second.
_SPORTS = (
    ("RUNNING", "Run", 0.4, 2.8),
    ("WALKING", "Walk", 0.3, 1.4),
    ("BIKING", "Bike", 0.2, 6.5),
    ("HIKING", "Hike", 0.06, 1.2),
    ("SWIMMING_POOL", "Pool swim", 0.04, 0.8),
)
_INDOORS = frozenset({"SWIMMING_POOL"})
_ON_FOOT = frozenset({"RUNNING", "WALKING", "HIKING"})
SPLIT_M = 1_000
#: How long after the end of an exercise the band uploads it.
_SYNCED_S = 600


class Exercise(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise of a person."""

    id: int
    type: str
    #: Seconds since the epoch.
    start_s: int
    duration_s: int
    distance_m: float
    beats: int | None
    climb_m: float = 0.0
    has_gps: bool = True
    manual: bool = False

    @property
    def end_s(self) -> int:
        """When the exercise ended, in seconds since the epoch."""
        return self.start_s + self.duration_s


def draw_exercises(day: Day) -> list[Exercise]:
    """Draw the exercises of a day, oldest first; about half of the days have any."""
    if day.chance("exercise") >= day.shares.exercise:
        return []
    count = 2 if day.chance("second") < day.shares.second_exercise else 1
    return [_drawn(day, place) for place in range(count)]


def type_name(exercise_type: str) -> str:
    """Google's name for an exercise of that type."""
    known = {kind: name for kind, name, *_ in _SPORTS}
    return known.get(exercise_type, exercise_type.replace("_", " ").capitalize())


def point_of(exercise: Exercise, offset_s: int) -> Point:
    """The exercise as a data point."""
    return Point(
        start_s=exercise.start_s,
        end_s=exercise.end_s,
        fields=_fields(exercise, offset_s),
        id=exercise.id,
        manual=exercise.manual,
    )


def _drawn(day: Day, place: int) -> Exercise:
    exercise = session_id(day.person, day.number, place)
    rng = draw(day.seed, "exercise", exercise)
    kind, _, _, speed = rng.choices(_SPORTS, [each[2] for each in _SPORTS])[0]
    # The first exercise is in the morning, the second in the afternoon.
    at_s = rng.randint(6 * 3_600, 10 * 3_600) + place * 8 * 3_600
    duration_s = rng.randint(900, 5_400)
    manual = rng.random() < day.shares.manual
    indoors = manual or kind in _INDOORS or rng.random() < day.shares.no_gps
    return Exercise(
        id=exercise,
        type=kind,
        start_s=day.midnight_s + at_s,
        duration_s=duration_s,
        distance_m=round(duration_s * speed * rng.uniform(0.8, 1.2), 1),
        beats=None if manual else rng.randint(105, 165),
        climb_m=0.0 if indoors else round(rng.uniform(2, 250), 1),
        has_gps=not indoors,
        manual=manual,
    )


def _fields(exercise: Exercise, offset_s: int) -> JsonObject:
    fields: dict[str, object] = {
        "exerciseType": exercise.type,
        "displayName": type_name(exercise.type),
        "activeDuration": f"{exercise.duration_s}s",
        "metricsSummary": _summary(exercise, exercise.distance_m, exercise.duration_s),
        "exerciseEvents": [
            _event("START", exercise.start_s, offset_s),
            _event("STOP", exercise.end_s, offset_s),
        ],
        "createTime": moment_text(exercise.end_s + _SYNCED_S),
        "updateTime": moment_text(exercise.end_s + _SYNCED_S),
    }
    if exercise.has_gps:
        # False is left out, like every zero or empty value.
        fields["exerciseMetadata"] = {"hasGps": True}
        fields["splits"] = _splits(exercise, offset_s)
    return fields


def _summary(exercise: Exercise, distance_m: float, duration_s: int) -> JsonObject:
    summary: dict[str, object] = {"caloriesKcal": round(duration_s / 60 * 8.5, 1)}
    if distance_m:
        summary["distanceMillimeters"] = round(distance_m * 1_000)
        summary["averageSpeedMillimetersPerSecond"] = round(distance_m * 1_000 / duration_s, 2)
        summary["averagePaceSecondsPerMeter"] = round(duration_s / distance_m, 4)
    if exercise.type in _ON_FOOT:
        summary["steps"] = str(int(distance_m / 0.8))
    if exercise.beats is not None:
        summary["averageHeartRateBeatsPerMinute"] = str(exercise.beats)
    if exercise.climb_m:
        share = distance_m / exercise.distance_m if exercise.distance_m else 0
        summary["elevationGainMillimeters"] = round(exercise.climb_m * 1_000 * share)
    return summary


def _splits(exercise: Exercise, offset_s: int) -> list[JsonObject]:
    """Splits of a whole kilometre each, and one for the rest of the distance."""
    speed = exercise.distance_m / exercise.duration_s
    splits: list[JsonObject] = []
    done_m = 0.0
    while speed and done_m < exercise.distance_m:
        until_m = min(done_m + SPLIT_M, exercise.distance_m)
        start_s = exercise.start_s + int(done_m / speed)
        end_s = exercise.start_s + max(int(until_m / speed), int(done_m / speed) + 1)
        splits.append(
            {
                **segment(start_s, end_s, offset_s),
                "splitType": "DISTANCE",
                "activeDuration": f"{end_s - start_s}s",
                "metricsSummary": _summary(exercise, until_m - done_m, end_s - start_s),
            }
        )
        done_m = until_m
    return splits


def _event(kind: str, at_s: int, offset_s: int) -> JsonObject:
    return {
        "eventTime": moment_text(at_s),
        "eventUtcOffset": f"{offset_s}s",
        "exerciseEventType": kind,
    }
