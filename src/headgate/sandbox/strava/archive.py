"""An athlete's activities in the order of time: most of them never built, some added later.

A drawn activity is a function of its index, and so is its start, which rises with it. A page of a
hundred thousand therefore costs a binary search and the activities on the page.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

import msgspec

from headgate.sandbox.kit.seeded import draw, fraction
from headgate.sandbox.strava.activity import Activity, Place

#: Ids of one athlete's activities are a block of this size.
BLOCK = 10_000_000
FIRST_ACTIVITY_ID = 10_000_000_000
FIRST_ATHLETE_ID = 1_000_001

#: Drawn activities are a day apart, or closer where they would go back further than this.
STEP_S_MAX = 86_400
SPAN_S_MAX = 10 * 365 * 86_400

#: Zones without summer time, so that an offset is one number.
_ZONES = (
    ("(GMT-07:00) America/Phoenix", -25_200, (33.45, -112.07)),
    ("(GMT+00:00) Africa/Accra", 0, (5.6, -0.19)),
    ("(GMT+05:30) Asia/Kolkata", 19_800, (12.97, 77.59)),
    ("(GMT+09:00) Asia/Tokyo", 32_400, (35.68, 139.69)),
)
_FIRST_NAMES = ("Ada", "Bo", "Chidi", "Dana", "Emre", "Freya", "Goro", "Hana", "Ines", "Juno")
_LAST_NAMES = ("Alder", "Brook", "Cliff", "Dale", "Fen", "Glen", "Heath", "Lake", "Moor", "Vale")


class Athlete(msgspec.Struct, frozen=True, kw_only=True):
    """Someone with activities."""

    id: int
    firstname: str
    lastname: str
    sex: str
    timezone: str
    utc_offset_s: int
    home: tuple[float, float]
    created_s: int

    @property
    def ordinal(self) -> int:
        """Which athlete of this sandbox it is, from zero."""
        return self.id - FIRST_ATHLETE_ID


def draw_athlete(seed: int, ordinal: int, now_s: int) -> Athlete:
    """The athlete of this place."""
    rng = draw(seed, "athlete", ordinal)
    timezone, offset_s, home = rng.choice(_ZONES)
    return Athlete(
        id=FIRST_ATHLETE_ID + ordinal,
        firstname=rng.choice(_FIRST_NAMES),
        lastname=rng.choice(_LAST_NAMES),
        sex=rng.choice("FM"),
        timezone=timezone,
        utc_offset_s=offset_s,
        home=home,
        created_s=now_s - SPAN_S_MAX - rng.randint(0, STEP_S_MAX),
    )


class _Added(msgspec.Struct, frozen=True):
    activity: Activity
    #: How many drawn activities are older.
    older: int


def _start_of(added: _Added) -> int:
    return added.activity.start_s


class Slice(msgspec.Struct, frozen=True):
    """A stretch of the archive: drawn and added ones between two moments."""

    first: int
    last: int
    first_added: int
    last_added: int

    @property
    def size(self) -> int:
        """How many activities are in it."""
        return self.last - self.first + self.last_added - self.first_added


class Archive:
    """The activities of one athlete."""

    def __init__(
        self,
        athlete: Athlete,
        *,
        seed: int,
        drawn: int,
        newest_s: int,
        draw_one: Callable[[Place], Activity],
    ) -> None:
        """Hold `drawn` activities that end before `newest_s`; `draw_one` builds one of them."""
        self.athlete = athlete
        self.drawn = drawn
        self._seed = seed
        self._newest_s = newest_s
        self._draw_one = draw_one
        self._step_s = min(STEP_S_MAX, SPAN_S_MAX // max(1, drawn))
        #: By start; equal starts in the order they were added.
        self._added: list[_Added] = []
        self._by_index: dict[int, Activity] = {}

    @property
    def size(self) -> int:
        """How many activities the athlete has."""
        return self.drawn + len(self._added)

    def next_id(self) -> int:
        """The id of the next activity that is added."""
        return self._id(self.size)

    def add(self, activity: Activity) -> None:
        """Put in one that was made at run time, under `next_id`."""
        assert activity.id == self.next_id(), "ids are handed out in order"
        older = self._drawn_until(activity.start_s)
        self._by_index[self.size] = activity
        place = bisect_right(self._added, activity.start_s, key=_start_of)
        self._added.insert(place, _Added(activity, older))

    def find(self, activity_id: int) -> Activity | None:
        """The activity of that id, if it is this athlete's."""
        index = activity_id - self._id(0)
        if 0 <= index < self.drawn:
            return self._drawn(index)
        return self._by_index.get(index)

    def between(self, after_s: int | None, before_s: int | None) -> Slice:
        """Those that began after the one moment and before the other."""
        first = 0 if after_s is None else self._drawn_until(after_s)
        last = self.drawn if before_s is None else self._drawn_before(before_s)
        added = self._added
        first_added = 0 if after_s is None else bisect_right(added, after_s, key=_start_of)
        last_added = len(added) if before_s is None else bisect_left(added, before_s, key=_start_of)
        return Slice(first, max(first, last), first_added, max(first_added, last_added))

    def at(self, part: Slice, place: int) -> Activity:
        """The activity at that place of a slice, oldest first."""
        # An added one's place is the number of drawn and of added ones before it.
        added = range(part.first_added, part.last_added)
        nearest = bisect_left(added, place, key=lambda each: self._place(part, each))
        if nearest < len(added) and self._place(part, added[nearest]) == place:
            return self._added[added[nearest]].activity
        return self._drawn(part.first + place - nearest)

    def _place(self, part: Slice, added: int) -> int:
        return self._added[added].older - part.first + added - part.first_added

    def _drawn(self, index: int) -> Activity:
        athlete = self.athlete
        start_s = self._start_s(index)
        return self._draw_one(
            Place(
                self._id(index),
                athlete.id,
                start_s,
                athlete.utc_offset_s,
                athlete.timezone,
                athlete.home,
            )
        )

    def _start_s(self, index: int) -> int:
        # Less than a step of jitter, so starts rise with the index.
        jitter = fraction(self._seed, "start", self.athlete.ordinal, index)
        steps = self.drawn - index - 0.9 * jitter
        return self._newest_s - int(steps * self._step_s)

    def _drawn_until(self, moment_s: int) -> int:
        """How many drawn ones began at that moment or before."""
        return bisect_right(range(self.drawn), moment_s, key=self._start_s)

    def _drawn_before(self, moment_s: int) -> int:
        """How many drawn ones began before that moment."""
        return bisect_left(range(self.drawn), moment_s, key=self._start_s)

    def _id(self, index: int) -> int:
        return FIRST_ACTIVITY_ID + self.athlete.ordinal * BLOCK + index
