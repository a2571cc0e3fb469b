"""This module draws what a fitness band measures on one day.

A day depends on the seed, the person and the date alone. Steps, distance, active minutes and
calories come from the same movement, so they agree.
"""

from collections.abc import Iterator

import msgspec

from headgate_sandbox.google_health.person import Person
from headgate_sandbox.google_health.point import Point
from headgate_sandbox.kit.seeded import fraction

#: People move between these times of day.
_UP_S, _DOWN_S = 7 * 3_600, 22 * 3_600
#: With less movement than this, people sit, and nothing is counted.
_STILL = 0.35
_STEPS_A_MINUTE = 50
_MM_A_STEP = 720
_KCAL_A_STEP = 0.04
_KCAL_AT_REST_A_MINUTE = 1.1
#: The least movement of each level.
_LEVELS = ((0.92, "VIGOROUS"), (0.8, "MODERATE"), (0.6, "LIGHT"))


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of days and exercises with special traits; each is between 0 and 1."""

    #: Days on which the band was not worn, so that there is no data.
    empty: float = 0.08
    exercise: float = 0.5
    second_exercise: float = 0.1
    weight: float = 0.25
    #: Exercises without a track, and those entered by hand.
    no_gps: float = 0.2
    manual: float = 0.06


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """One person's day."""

    seed: int
    person: Person
    #: Days since the epoch, on the wall clock of the person.
    number: int
    #: How long one measurement lasts.
    slot_s: int
    shares: Shares

    @property
    def midnight_s(self) -> int:
        """When the day begins, in seconds since the epoch."""
        return self.person.midnight_s(self.number)

    def chance(self, *names: object) -> float:
        """A number from 0 up to 1 for this day and these names."""
        return fraction(self.seed, self.person.ordinal, self.number, *names)

    @property
    def is_empty(self) -> bool:
        """Whether the band was not worn, so that there is no data."""
        return self.chance("worn") < self.shares.empty

    def steps(self) -> list[Point]:
        """The steps of each slot in which the person walked."""
        return [
            self._slot(at_s, {"count": str(self._steps(moved))}) for at_s, moved in self._moved()
        ]

    def distance(self) -> list[Point]:
        """The distance of each slot in which the person walked."""
        return [
            self._slot(at_s, {"millimeters": str(self._steps(moved) * _MM_A_STEP)})
            for at_s, moved in self._moved()
        ]

    def active_minutes(self) -> list[Point]:
        """The active minutes of each slot in which the person walked fast enough."""
        minutes = str(max(1, self.slot_s // 60 * 2 // 3))
        return [
            self._slot(
                at_s,
                {
                    "activeMinutesByActivityLevel": [
                        {"activityLevel": level, "activeMinutes": minutes}
                    ]
                },
            )
            for at_s, moved in self._moved()
            if (level := _level(moved))
        ]

    def total_calories(self) -> list[Point]:
        """The calories of every slot of the day, since people burn some even in their sleep."""
        moved = dict(self._moved())
        at_rest = self.slot_s / 60 * _KCAL_AT_REST_A_MINUTE
        return [
            self._slot(
                at_s,
                {"kcal": round(at_rest + self._steps(moved.get(at_s, _STILL)) * _KCAL_A_STEP, 2)},
            )
            for at_s in range(0, 86_400, self.slot_s)
        ]

    def heart_rate(self) -> list[Point]:
        """The heart rate in every slot of the day; it is faster while the person moves."""
        moved = dict(self._moved())
        return [
            self._sample(at_s, self._beats(at_s, moved.get(at_s)))
            for at_s in range(0, 86_400, self.slot_s)
        ]

    def weight(self) -> list[Point]:
        """The weight, on some mornings."""
        if self.chance("scale") >= self.shares.weight:
            return []
        grams = round(self.person.weight_kg * 1_000 + (self.chance("grams") - 0.5) * 1_500)
        return [
            self._sample(7 * 3_600 + int(self.chance("morning") * 3_600), {"weightGrams": grams})
        ]

    def _moved(self) -> Iterator[tuple[int, float]]:
        """The seconds of the day at which the person moved, and how much."""
        for at_s in range(_UP_S, _DOWN_S, self.slot_s):
            moved = self.chance("move", at_s)
            if self._steps(moved) > 0:
                yield at_s, moved

    def _steps(self, moved: float) -> int:
        return int((moved - _STILL) * self.slot_s / 60 * _STEPS_A_MINUTE)

    def _beats(self, at_s: int, moved: float | None) -> dict[str, object]:
        beats = 52 + 12 * self.chance("heart", at_s) + 60 * (moved or 0.1)
        context = "SEDENTARY" if moved is None else "ACTIVE"
        return {
            "beatsPerMinute": str(round(beats)),
            "metadata": {"motionContext": context, "sensorLocation": "WRIST"},
        }

    def _slot(self, at_s: int, fields: dict[str, object]) -> Point:
        start_s = self.midnight_s + at_s
        return Point(start_s=start_s, end_s=start_s + self.slot_s, fields=fields)

    def _sample(self, at_s: int, fields: dict[str, object]) -> Point:
        moment_s = self.midnight_s + at_s
        return Point(start_s=moment_s, end_s=moment_s, fields=fields)


def _level(moved: float) -> str | None:
    return next((name for above, name in _LEVELS if moved >= above), None)
