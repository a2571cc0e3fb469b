"""This module defines and draws people, and computes the ids of their exercises."""

import msgspec

from headgate_sandbox.kit.seeded import draw

FIRST_USER_ID = 1_000_000_001
#: An id contains the person, the day and the place in that day, so that no search is needed.
_BASE = 2_000_000_000_000_000_000
_PERSON = 10_000_000_000
_DAY = 1_000
#: Places in a day from this one on are for exercises added at run time.
FIRST_ADDED = 500

#: Zones without summer time, so that each has one offset.
_ZONES = (
    (-25_200, (33.45, -112.07)),
    (0, (5.6, -0.19)),
    (19_800, (12.97, 77.59)),
    (32_400, (35.68, 139.69)),
)


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person who wears a fitness band."""

    #: The person's number in this sandbox, from zero.
    ordinal: int
    utc_offset_s: int
    home: tuple[float, float]
    weight_kg: float
    #: The first day of their history, as a day number.
    first_day: int

    @property
    def id(self) -> str:
        """The Health user id."""
        return str(FIRST_USER_ID + self.ordinal)

    def midnight_s(self, day: int) -> int:
        """When that day begins for this person, in seconds since the epoch."""
        return day * 86_400 - self.utc_offset_s

    def day_of(self, seconds: float) -> int:
        """The day on this person's wall clock, counted from the epoch."""
        return int(seconds + self.utc_offset_s) // 86_400


def draw_person(seed: int, ordinal: int, first_day: int) -> Person:
    """Draw the person with this number."""
    rng = draw(seed, "person", ordinal)
    offset_s, home = rng.choice(_ZONES)
    return Person(
        ordinal=ordinal,
        utc_offset_s=offset_s,
        home=home,
        weight_kg=round(rng.uniform(52, 95), 1),
        first_day=first_day,
    )


def session_id(person: Person, day: int, place: int) -> int:
    """The id of an exercise."""
    return _BASE + person.ordinal * _PERSON + day * _DAY + place


def ordinal_of_id(session: int) -> int:
    """The number of the person that an id belongs to, who need not exist."""
    return (session - _BASE) // _PERSON


def day_of_id(person: Person, session: int) -> int | None:
    """The day that an id belongs to, or None if the id is not this person's."""
    within = session - _BASE - person.ordinal * _PERSON
    return within // _DAY if 0 <= within < _PERSON else None
