"""This module exports an exercise as a TCX file, with the same bytes each time."""

import math
from xml.sax.saxutils import quoteattr

from headgate_sandbox.google_health.exercise import Exercise
from headgate_sandbox.google_health.person import Person
from headgate_sandbox.google_health.point import moment_text

#: Seconds between two points of the track.
STEP_S = 10
METRES_A_DEGREE = 111_320.0

#: TCX has three sports: these two and Other.
_SPORTS = {"RUNNING": "Running", "BIKING": "Biking"}
_SPACE = "http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2"


def export(exercise: Exercise, person: Person, *, partial: bool) -> bytes:
    """Export the file; an exercise without GPS has points only if `partial` is True."""
    points = _points(exercise, person) if exercise.has_gps or partial else []
    track = ["   <Track>", *points, "   </Track>"] if points else []
    start = moment_text(exercise.start_s)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<TrainingCenterDatabase xmlns={quoteattr(_SPACE)}>",
        " <Activities>",
        f"  <Activity Sport={quoteattr(_SPORTS.get(exercise.type, 'Other'))}>",
        f"   <Id>{start}</Id>",
        f"   <Lap StartTime={quoteattr(start)}>",
        f"   <TotalTimeSeconds>{exercise.duration_s}</TotalTimeSeconds>",
        f"   <DistanceMeters>{exercise.distance_m}</DistanceMeters>",
        f"   <Calories>{round(exercise.duration_s / 60 * 8.5)}</Calories>",
        "   <Intensity>Active</Intensity>",
        "   <TriggerMethod>Manual</TriggerMethod>",
        *track,
        "   </Lap>",
        "  </Activity>",
        " </Activities>",
        "</TrainingCenterDatabase>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _points(exercise: Exercise, person: Person) -> list[str]:
    last = exercise.duration_s
    return [_point(exercise, person, at_s) for at_s in [*range(0, last, STEP_S), last]]


def _point(exercise: Exercise, person: Person, at_s: int) -> str:
    share = at_s / exercise.duration_s
    parts = [f"<Time>{moment_text(exercise.start_s + at_s)}</Time>"]
    if exercise.has_gps:
        lat, lng = _position(exercise, person, share)
        parts.append(
            f"<Position><LatitudeDegrees>{lat:.6f}</LatitudeDegrees>"
            f"<LongitudeDegrees>{lng:.6f}</LongitudeDegrees></Position>"
        )
        parts.append(f"<AltitudeMeters>{20 + exercise.climb_m * share:.1f}</AltitudeMeters>")
    parts.append(f"<DistanceMeters>{exercise.distance_m * share:.1f}</DistanceMeters>")
    if exercise.beats is not None:
        beats = exercise.beats + round(8 * math.sin(at_s / 90))
        parts.append(f"<HeartRateBpm><Value>{beats}</Value></HeartRateBpm>")
    return f"    <Trackpoint>{''.join(parts)}</Trackpoint>"


def _position(exercise: Exercise, person: Person, share: float) -> tuple[float, float]:
    """The position on a circle from home and back, whose length is the exercise's distance."""
    radius = exercise.distance_m / (2 * math.pi) / METRES_A_DEGREE
    lat, lng = person.home
    angle = 2 * math.pi * share
    east = radius * math.sin(angle) / math.cos(math.radians(lat))
    return lat + radius * (1 - math.cos(angle)), lng + east
