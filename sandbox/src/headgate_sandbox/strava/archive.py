"""This module holds one athlete's activities in time order; their ids tell the athlete."""

from collections.abc import Callable

import msgspec

from headgate_sandbox.kit.seeded import draw, fraction
from headgate_sandbox.kit.timeline import Pace, Slice, Timeline
from headgate_sandbox.strava.activity import Activity, Place

#: The activities of each athlete have a block of this many ids.
BLOCK = 10_000_000
FIRST_ACTIVITY_ID = 10_000_000_000
FIRST_ATHLETE_ID = 1_000_001

#: Drawn activities are a day apart, or closer if they would go back further than this span.
STEP_S_MAX = 86_400
SPAN_S_MAX = 10 * 365 * 86_400

#: Zones without summer time, so that each has one offset.
_ZONES = (
    ("(GMT-07:00) America/Phoenix", -25_200, (33.45, -112.07)),
    ("(GMT+00:00) Africa/Accra", 0, (5.6, -0.19)),
    ("(GMT+05:30) Asia/Kolkata", 19_800, (12.97, 77.59)),
    ("(GMT+09:00) Asia/Tokyo", 32_400, (35.68, 139.69)),
)
_FIRST_NAMES = ("Ada", "Bo", "Chidi", "Dana", "Emre", "Freya", "Goro", "Hana", "Ines", "Juno")
_LAST_NAMES = ("Alder", "Brook", "Cliff", "Dale", "Fen", "Glen", "Heath", "Lake", "Moor", "Vale")


class Athlete(msgspec.Struct, frozen=True, kw_only=True):
    """One athlete."""

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
        """The athlete's number in this sandbox, from zero."""
        return self.id - FIRST_ATHLETE_ID


def draw_athlete(seed: int, ordinal: int, now_s: int) -> Athlete:
    """Draw the athlete with this number."""
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
        """Hold `drawn` activities that begin before `newest_s`; `draw_one` builds one of them."""
        self.athlete = athlete
        self._seed = seed
        self._draw_one = draw_one
        self._pace = Pace(
            drawn=drawn, newest_s=newest_s, step_s_max=STEP_S_MAX, span_s_max=SPAN_S_MAX
        )
        self._timeline = Timeline(drawn, moment_of=self._start_s, build=self._drawn)
        #: Made activities, and None for deleted ones, by their index, which is never used again.
        self._by_index: dict[int, Activity | None] = {}
        self._next_index = drawn

    @property
    def size(self) -> int:
        """How many activities the athlete has."""
        return self._timeline.size

    def next_id(self) -> int:
        """The id of the next activity that is added."""
        return self._id(self._next_index)

    def add(self, activity: Activity) -> None:
        """Add an activity that was made at run time, with the id `next_id`."""
        assert activity.id == self.next_id(), "ids are handed out in order"
        self._by_index[self._next_index] = activity
        self._next_index += 1
        self._timeline.add(activity.start_s, activity)

    def delete(self, activity: Activity) -> None:
        """Delete an activity, which was not deleted before."""
        index = activity.id - self._id(0)
        self._by_index[index] = None
        if index < self._timeline.drawn:
            self._timeline.remove(index)
        else:
            self._timeline.remove_added(activity)

    def find(self, activity_id: int) -> Activity | None:
        """The activity of that id, if it belongs to this athlete."""
        index = activity_id - self._id(0)
        if index not in self._by_index and 0 <= index < self._timeline.drawn:
            return self._drawn(index)
        return self._by_index.get(index)

    def between(self, after_s: int | None, before_s: int | None) -> Slice:
        """The activities that began after `after_s` and before `before_s`."""
        return self._timeline.between(after_s, before_s)

    def at(self, part: Slice, place: int) -> Activity:
        """The activity at that place of a slice, oldest first."""
        return self._timeline.at(part, place)

    def _drawn(self, index: int) -> Activity:
        athlete = self.athlete
        return self._draw_one(
            Place(
                self._id(index),
                athlete.id,
                self._start_s(index),
                athlete.utc_offset_s,
                athlete.timezone,
                athlete.home,
            )
        )

    def _start_s(self, index: int) -> int:
        jitter = fraction(self._seed, "start", self.athlete.ordinal, index)
        return self._pace.moment_s(index, jitter)

    def _id(self, index: int) -> int:
        return FIRST_ACTIVITY_ID + self.athlete.ordinal * BLOCK + index
