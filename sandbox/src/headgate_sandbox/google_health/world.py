"""This module holds the people and their data; it knows nothing of HTTP.

Only added exercises and the ids of deleted ones are kept. A day is drawn when it is asked for,
so years of history cost nothing until they are read. The history grows by a day at each midnight of
the person's wall clock.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.google_health.data_types import DataType
from headgate_sandbox.google_health.day import Day, Shares
from headgate_sandbox.google_health.exercise import Exercise, draw_exercises, point_of
from headgate_sandbox.google_health.person import (
    FIRST_ADDED,
    FIRST_USER_ID,
    Person,
    day_of_id,
    draw_person,
    session_id,
)
from headgate_sandbox.google_health.point import Point
from headgate_sandbox.kit.forms import digits

DAY_S = 86_400
USERS_MAX = 100_000
#: A hundred years, longer than any band has measured.
DAYS_MAX = 36_500
#: The most exercises that can be added to one person on one day.
ADDED_MAX = 499
DURATION_S_MAX = 86_400
DISTANCE_M_MAX = 1e6

_DRAWN: dict[str, Callable[[Day], list[Point]]] = {
    "steps": Day.steps,
    "distance": Day.distance,
    "active-minutes": Day.active_minutes,
    "total-calories": Day.total_calories,
    "heart-rate": Day.heart_rate,
    "weight": Day.weight,
}


class NewExercise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exercise to be made at run time."""

    #: None means the first user.
    user: str | None = None
    exercise_type: str = "RUNNING"
    #: None means that the exercise has just ended.
    start: datetime | None = None
    duration_s: int = 1_800
    distance_m: float = 5_000.0
    has_gps: bool = True
    manual: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible values; the error names the field."""
        if not 1 <= self.duration_s <= DURATION_S_MAX:
            raise InvalidInput("duration_s", f"must be between 1 and {DURATION_S_MAX}")
        if not 0 <= self.distance_m <= DISTANCE_M_MAX:
            raise InvalidInput("distance_m", f"must be between 0 and {DISTANCE_M_MAX:.0f}")
        if self.start is not None:
            if self.start.tzinfo is None:
                raise InvalidInput("start", "needs a time zone, such as 2026-01-01T00:00:00Z")
            if not 1970 < self.start.year < 2_100:
                raise InvalidInput("start", "must be after 1970 and before 2100")


class World:
    """All people and what their bands measured."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int,
        users: int,
        days: int,
        slot_minutes: int,
        shares: Shares,
    ) -> None:
        """Offer that many users, with that many days each; all are drawn when asked for."""
        if not 1 <= users <= USERS_MAX:
            raise InvalidInput("users", f"must be between 1 and {USERS_MAX}")
        if slot_minutes not in (1, 5, 15, 30, 60):
            raise InvalidInput("slot_minutes", "must be 1, 5, 15, 30 or 60")
        self.seed = seed
        self._clock = clock
        self._slot_s = slot_minutes * 60
        self._shares = shares
        self._begun_day = int(clock.now().timestamp()) // DAY_S
        self._days = [_checked(days)] * users
        self._added: dict[tuple[int, int], list[Exercise]] = {}
        self._deleted: set[int] = set()

    @property
    def user_ids(self) -> range:
        """The ids of all users."""
        return range(FIRST_USER_ID, FIRST_USER_ID + len(self._days))

    @property
    def added(self) -> int:
        """How many exercises were added at run time."""
        return sum(map(len, self._added.values()))

    def has(self, user: str) -> bool:
        """Whether that user exists."""
        return digits(user) in self.user_ids

    def add_user(self, days: int) -> Person:
        """Add a person with that many days of history."""
        if len(self._days) >= USERS_MAX:
            raise InvalidInput("users", f"there are {USERS_MAX} already")
        self._days.append(_checked(days))
        return self.person(str(self.user_ids[-1]))

    def person(self, user: str) -> Person:
        """The person of that id, who must exist."""
        ordinal = self.user_ids.index(int(user))
        return draw_person(self.seed, ordinal, self._begun_day - self._days[ordinal])

    def add_exercise(self, new: NewExercise) -> Exercise:
        """Add an exercise."""
        user = str(self.user_ids[0]) if new.user is None else new.user
        if not self.has(user):
            raise InvalidInput("user", f"there is no user {user}")
        person = self.person(user)
        start_s = int(self._clock.now().timestamp()) - new.duration_s
        if new.start is not None:
            start_s = int(new.start.timestamp())
        day = person.day_of(start_s)
        on_day = self._added.setdefault((person.ordinal, day), [])
        if len(on_day) >= ADDED_MAX:
            raise InvalidInput("start", f"{ADDED_MAX} exercises were added on that day already")
        exercise = Exercise(
            id=session_id(person, day, FIRST_ADDED + len(on_day)),
            type=new.exercise_type,
            start_s=start_s,
            duration_s=new.duration_s,
            distance_m=new.distance_m,
            beats=None if new.manual else 140,
            has_gps=new.has_gps and not new.manual,
            manual=new.manual,
        )
        on_day.append(exercise)
        return exercise

    def delete_exercise(self, exercise: int) -> None:
        """Delete an exercise, which must exist."""
        self._deleted.add(exercise)

    def points(
        self, person: Person, data_type: DataType, low_s: float, high_s: float
    ) -> Iterator[Point]:
        """Points around that span, newest first; whole days, so some can lie outside of it."""
        known = self._known_days(person)
        # One more day on both sides, for points that begin on one day and end on another.
        first = max(known.start, person.day_of(low_s) - 1)
        last = min(known.stop - 1, person.day_of(high_s) + 1)
        for number in range(last, first - 1, -1):
            yield from reversed(self.on_day(person, data_type, number))

    def on_day(self, person: Person, data_type: DataType, number: int) -> list[Point]:
        """The points of one day, oldest first."""
        if data_type.name == "exercise":
            found = self.exercises(person, number)
            return [point_of(exercise, person.utc_offset_s) for exercise in found]
        day = self._day(person, number)
        return [] if day is None else _DRAWN[data_type.name](day)

    def exercises(self, person: Person, number: int) -> list[Exercise]:
        """The exercises that began on one day, oldest first."""
        day = self._day(person, number)
        drawn = [] if day is None else draw_exercises(day)
        added = self._added.get((person.ordinal, number), [])
        left = [each for each in (*drawn, *added) if each.id not in self._deleted]
        return sorted(left, key=lambda each: (each.start_s, each.id))

    def find_exercise(self, person: Person, session: int) -> Exercise | None:
        """The exercise of that id, if it belongs to this person."""
        number = day_of_id(person, session)
        if number is None:
            return None
        return next((each for each in self.exercises(person, number) if each.id == session), None)

    def _day(self, person: Person, number: int) -> Day | None:
        """The day, if it is within the history, is over and has data; None otherwise."""
        if not person.first_day <= number < self._today(person):
            return None
        day = Day(
            seed=self.seed,
            person=person,
            number=number,
            slot_s=self._slot_s,
            shares=self._shares,
        )
        return None if day.is_empty else day

    def _known_days(self, person: Person) -> range:
        """The days that can have data."""
        added = [day for ordinal, day in self._added if ordinal == person.ordinal]
        first = min([person.first_day, *added])
        return range(first, max([self._today(person) - 1, *added]) + 1)

    def _today(self, person: Person) -> int:
        return person.day_of(self._clock.now().timestamp())


def _checked(days: int) -> int:
    if not 0 <= days <= DAYS_MAX:
        raise InvalidInput("days", f"must be between 0 and {DAYS_MAX}")
    return days
