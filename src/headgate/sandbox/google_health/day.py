"""What a band measures on one day: drawn from the seed, the same whatever was drawn before.

Steps, distance, active minutes and calories come from the same movement, so they agree.
"""

from collections.abc import Iterator

import msgspec

from headgate.sandbox.google_health.person import Person
from headgate.sandbox.google_health.point import Point
from headgate.sandbox.kit.seeded import fraction

#: The hours that people move in.
_UP_S, _DOWN_S = 7 * 3_600, 22 * 3_600
#: Below this much movement nothing is counted: they sit.
_STILL = 0.35
_STEPS_A_MINUTE = 50
_MM_A_STEP = 720
_KCAL_A_STEP = 0.04
_KCAL_AT_REST_A_MINUTE = 1.1
#: How much movement makes which level.
_LEVELS = ((0.92, "VIGOROUS"), (0.8, "MODERATE"), (0.6, "LIGHT"))


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How often a day is something special; between 0 and 1."""

    #: The band was not worn: nothing at all.
    empty: float = 0.08
    exercise: float = 0.5
    second_exercise: float = 0.1
    weight: float = 0.25
    nap: float = 0.1
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
        """When it begins, in seconds since the epoch."""
        return self.person.midnight_s(self.number)

    def chance(self, *names: object) -> float:
        """A number of this day's own, from 0 up to 1."""
        return fraction(self.seed, self.person.ordinal, self.number, *names)

    @property
    def is_empty(self) -> bool:
        """Whether the band was left at home."""
        return self.chance("worn") < self.shares.empty

    def steps(self) -> list[Point]:
        """Whenever they walked."""
        return [
            self._slot(at_s, {"count": str(self._steps(moved))}) for at_s, moved in self._moved()
        ]

    def distance(self) -> list[Point]:
        """Whenever they walked."""
        return [
            self._slot(at_s, {"millimeters": str(self._steps(moved) * _MM_A_STEP)})
            for at_s, moved in self._moved()
        ]

    def active_minutes(self) -> list[Point]:
        """Whenever they walked fast enough."""
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
        """All day long: people burn something even in their sleep."""
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
        """All day long; faster while they move."""
        moved = dict(self._moved())
        return [
            self._sample(at_s, self._beats(at_s, moved.get(at_s)))
            for at_s in range(0, 86_400, self.slot_s)
        ]

    def weight(self) -> list[Point]:
        """On some mornings."""
        if self.chance("scale") >= self.shares.weight:
            return []
        grams = round(self.person.weight_kg * 1_000 + (self.chance("grams") - 0.5) * 1_500)
        return [
            self._sample(7 * 3_600 + int(self.chance("morning") * 3_600), {"weightGrams": grams})
        ]

    def _moved(self) -> Iterator[tuple[int, float]]:
        """The seconds of the day at which they moved, and how much."""
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
