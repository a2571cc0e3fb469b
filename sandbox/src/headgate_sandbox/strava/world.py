"""This module holds the athletes and their activities; it knows nothing of HTTP."""

from datetime import datetime

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.strava.activity import (
    Activity,
    Place,
    Shares,
    draw_activity,
    part_of_day,
    type_of,
)
from headgate_sandbox.strava.archive import (
    BLOCK,
    FIRST_ACTIVITY_ID,
    FIRST_ATHLETE_ID,
    Archive,
    Athlete,
    draw_athlete,
)

DAY_S = 86_400
#: Half of an athlete's ids are left for activities that are added.
DRAWN_MAX = BLOCK // 2
ATHLETES_MAX = 100_000
ELAPSED_S_MAX = 10_000_000
DISTANCE_M_MAX = 1e8
YEAR_END = 2_100


class NewActivity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An activity to be made at run time."""

    #: None means the first athlete.
    athlete_id: int | None = None
    name: str | None = None
    sport_type: str = "Run"
    #: None means that the activity has just ended.
    start: datetime | None = None
    elapsed_s: int = 1_800
    distance_m: float = 5_000.0
    manual: bool = False
    #: False means that nothing was measured: the activity has no streams.
    measured: bool = True
    private: bool = False
    trainer: bool = False
    commute: bool = False
    description: str | None = None
    external_id: str | None = None
    upload_id: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values; the error names the field."""
        if not 1 <= self.elapsed_s <= ELAPSED_S_MAX:
            raise InvalidInput("elapsed_s", f"must be between 1 and {ELAPSED_S_MAX}")
        if not 0 <= self.distance_m <= DISTANCE_M_MAX:
            raise InvalidInput("distance_m", f"must be between 0 and {DISTANCE_M_MAX:.0f}")
        if self.start is not None:
            if self.start.tzinfo is None:
                raise InvalidInput("start", "needs a time zone, such as 2026-01-01T00:00:00Z")
            if not 1970 < self.start.year < YEAR_END:
                raise InvalidInput("start", f"must be after 1970 and before {YEAR_END}")


class World:
    """All athletes and their activities."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int,
        athletes: int,
        activities: int,
        points: int,
        shares: Shares,
    ) -> None:
        """Offer that many athletes, with that many activities each; all drawn when asked for."""
        if not 1 <= athletes <= ATHLETES_MAX:
            raise InvalidInput("athletes", f"must be between 1 and {ATHLETES_MAX}")
        self.seed = seed
        self.points = points
        self._clock = clock
        self._shares = shares
        # A midnight, so that equal seeds give equal dates all day long; and yesterday's, so that
        # every drawn activity is over.
        self._newest_s = (self._now_s() // DAY_S - 1) * DAY_S
        self._sizes = [_checked(activities)] * athletes
        self._archives: dict[int, Archive] = {}

    @property
    def athlete_ids(self) -> range:
        """The ids of all athletes."""
        return range(FIRST_ATHLETE_ID, FIRST_ATHLETE_ID + len(self._sizes))

    def add_athlete(self, activities: int) -> Athlete:
        """Add an athlete with that many activities."""
        if len(self._sizes) >= ATHLETES_MAX:
            raise InvalidInput("athletes", f"there are {ATHLETES_MAX} already")
        self._sizes.append(_checked(activities))
        return self.archive(self.athlete_ids[-1]).athlete

    def archive(self, athlete_id: int) -> Archive:
        """The activities of an athlete, who must exist."""
        archive = self._archives.get(athlete_id)
        if archive is None:
            ordinal = self.athlete_ids.index(athlete_id)
            archive = self._archives[athlete_id] = Archive(
                draw_athlete(self.seed, ordinal, self._newest_s),
                seed=self.seed,
                drawn=self._sizes[ordinal],
                newest_s=self._newest_s,
                draw_one=self._draw_one,
            )
        return archive

    def find(self, activity_id: int) -> Activity | None:
        """The activity of that id, of any athlete."""
        athlete_id = FIRST_ATHLETE_ID + (activity_id - FIRST_ACTIVITY_ID) // BLOCK
        if athlete_id not in self.athlete_ids:
            return None
        return self.archive(athlete_id).find(activity_id)

    def add(self, new: NewActivity) -> Activity:
        """Make an activity now."""
        athlete_id = self.athlete_ids[0] if new.athlete_id is None else new.athlete_id
        if athlete_id not in self.athlete_ids:
            raise InvalidInput("athlete_id", f"there is no athlete {athlete_id}")
        archive = self.archive(athlete_id)
        athlete = archive.athlete
        start_s = self._now_s() - new.elapsed_s
        if new.start is not None:
            start_s = int(new.start.timestamp())
        place = Place(
            archive.next_id(),
            athlete_id,
            start_s,
            athlete.utc_offset_s,
            athlete.timezone,
            athlete.home,
        )
        activity = _made(new, place)
        archive.add(activity)
        return activity

    def delete(self, activity_id: int) -> Activity:
        """Delete an activity, as its athlete does on Strava's pages."""
        activity = self.find(activity_id)
        if activity is None:
            raise InvalidInput("id", f"there is no activity {activity_id}")
        self.archive(activity.athlete_id).delete(activity)
        return activity

    def _draw_one(self, place: Place) -> Activity:
        return draw_activity(self.seed, place, self._shares, self.points)

    def _now_s(self) -> int:
        return int(self._clock.now().timestamp())


def _made(new: NewActivity, place: Place) -> Activity:
    outdoors = not new.manual and not new.trainer
    part = part_of_day(place.start_s + place.utc_offset_s)
    return Activity(
        id=place.id,
        athlete_id=place.athlete_id,
        name=new.name or f"{part} {new.sport_type}",
        sport_type=new.sport_type,
        type=type_of(new.sport_type),
        start_s=place.start_s,
        utc_offset_s=place.utc_offset_s,
        timezone=place.timezone,
        elapsed_s=new.elapsed_s,
        moving_s=new.elapsed_s,
        distance_m=round(new.distance_m, 1),
        climb_m=20.0 if outdoors else 0.0,
        manual=new.manual,
        measured=new.measured and not new.manual,
        private=new.private,
        trainer=new.trainer,
        commute=new.commute,
        average_heartrate=None if new.manual else 140.0,
        origin=place.home if outdoors else None,
        device_name=None if new.manual else "Sandbox",
        description=new.description,
        external_id=new.external_id,
        upload_id=new.upload_id,
    )


def _checked(activities: int) -> int:
    if not 0 <= activities <= DRAWN_MAX:
        raise InvalidInput("activities", f"must be between 0 and {DRAWN_MAX}")
    return activities
