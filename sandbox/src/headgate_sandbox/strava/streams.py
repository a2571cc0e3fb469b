"""This module makes the points of an activity: plausible, equal for equal seeds, quick to make.

Every series reads one table of smooth noise, from a start of its own. Only the series that are
asked for are made.
"""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.seeded import draw, fraction
from headgate_sandbox.strava.activity import Activity

Series = list[int] | list[float] | list[bool] | list[list[float]]

#: The eleven types, in the order of the documentation.
TYPES = (
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

HEARTRATE_MIN, HEARTRATE_MAX = 90, 185
METRES_PER_DEGREE = 111_320.0

_TABLE_SIZE = 4_096


def _smooth_noise() -> tuple[float, ...]:
    """A table of numbers between -1 and 1: a few slow waves added up, periodic over the table."""
    rng = draw(0, "smooth noise")
    waves = [(beats, rng.uniform(0, math.tau), 1 / beats**0.5) for beats in (3, 7, 13, 29, 61)]
    weight = sum(strength for _, _, strength in waves)
    return tuple(
        sum(
            strength * math.sin(math.tau * beats * place / _TABLE_SIZE + phase)
            for beats, phase, strength in waves
        )
        / weight
        for place in range(_TABLE_SIZE)
    )


_NOISE = _smooth_noise()


class Points:
    """The series of one activity."""

    def __init__(self, seed: int, activity: Activity, points: int) -> None:
        """Make at most `points` points, and never more than one a second."""
        self._seed = seed
        self._activity = activity
        self.size = max(2, min(points, activity.elapsed_s + 1))
        self._makers: dict[str, Callable[[], Series]] = {
            "time": self.time,
            "distance": self.distance,
            "altitude": self._altitude,
            "velocity_smooth": self._velocity,
            "cadence": self._cadence,
            "temp": self._temperature,
            "moving": self._moving,
            "grade_smooth": self._grade,
        }
        if activity.origin is not None:
            self._makers["latlng"] = self.latlng
        if activity.average_heartrate is not None:
            self._makers["heartrate"] = self._heartrate
        if activity.average_watts is not None:
            self._makers["watts"] = self._watts

    def make(self, types: Iterable[str]) -> dict[str, JsonObject]:
        """The series of `types` that this activity has, by type, in the order of `TYPES`.

        Distance is always included. Unknown types are ignored.
        """
        wanted = {*types, "distance"} & self._makers.keys()
        return {
            name: {
                "data": self._makers[name](),
                "series_type": "distance",
                "original_size": self.size,
                "resolution": "high",
            }
            for name in TYPES
            if name in wanted
        }

    def time(self) -> list[int]:
        """Seconds since the start, strictly rising to the elapsed time."""
        last = self.size - 1
        elapsed_s = self._activity.elapsed_s
        return [place * elapsed_s // last for place in range(self.size)]

    def distance(self) -> list[float]:
        """Metres since the start, rising to the distance of the activity."""
        speeds = [1 + 0.4 * noise for noise in self._noise("speed")[1:]]
        scale = self._activity.distance_m / sum(speeds)
        return [0.0, *(round(metres * scale, 1) for metres in accumulate(speeds))]

    def latlng(self) -> list[list[float]]:
        """A winding path from the origin, as long as the activity's distance."""
        assert self._activity.origin is not None
        lat, lng = self._activity.origin
        step = self._activity.distance_m / (self.size - 1) / METRES_PER_DEGREE
        step_lng = step / math.cos(math.radians(lat))
        headings = [math.tau * noise for noise in self._noise("heading")[1:]]
        lats = accumulate((step * math.cos(each) for each in headings), initial=lat)
        lngs = accumulate((step_lng * math.sin(each) for each in headings), initial=lng)
        return [[round(a, 6), round(b, 6)] for a, b in zip(lats, lngs, strict=True)]

    def _altitude(self) -> list[float]:
        height = self._activity.climb_m / 4
        return [round(120 + height * noise, 1) for noise in self._noise("altitude")]

    def _velocity(self) -> list[float]:
        metres, seconds = self.distance(), self.time()
        return [0.0] + [
            round((metres[at] - metres[at - 1]) / (seconds[at] - seconds[at - 1]), 2)
            for at in range(1, self.size)
        ]

    def _heartrate(self) -> list[int]:
        assert self._activity.average_heartrate is not None
        middle = self._activity.average_heartrate
        return [
            min(HEARTRATE_MAX, max(HEARTRATE_MIN, round(middle + 27 * noise)))
            for noise in self._noise("heartrate")
        ]

    def _cadence(self) -> list[int]:
        return [round(82 + 8 * noise) for noise in self._noise("cadence")]

    def _watts(self) -> list[int]:
        assert self._activity.average_watts is not None
        middle = self._activity.average_watts
        return [max(0, round(middle * (1 + 0.5 * noise))) for noise in self._noise("watts")]

    def _temperature(self) -> list[int]:
        return [round(18 + 4 * noise) for noise in self._noise("temp")]

    def _moving(self) -> list[bool]:
        return [noise > -0.8 for noise in self._noise("moving")]

    def _grade(self) -> list[float]:
        return [round(6 * noise, 1) for noise in self._noise("grade")]

    def _noise(self, name: str) -> list[float]:
        """One number between -1 and 1 for each point."""
        start = int(fraction(self._seed, name, self._activity.id) * _TABLE_SIZE)
        # Repeating the table and slicing it is far faster than an index for each point.
        laid = _NOISE * (self.size // _TABLE_SIZE + 2)
        return list(laid[start : start + self.size])
