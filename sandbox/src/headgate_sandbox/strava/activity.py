"""This module defines an activity, and draws activities from the seed.

The JSON of an activity is in `shapes.py`; its points are in `streams.py`.
"""

from datetime import UTC, datetime

import msgspec

from headgate_sandbox.kit.seeded import draw, fraction

#: Sport, its older type, its share, its speed in metres a second, and its word in activity names.
_SPORTS = (
    ("Run", "Run", 0.45, 2.9, "Run"),
    ("Ride", "Ride", 0.25, 7.2, "Ride"),
    ("VirtualRide", "VirtualRide", 0.08, 8.0, "Virtual Ride"),
    ("Walk", "Walk", 0.12, 1.4, "Walk"),
    ("Hike", "Hike", 0.06, 1.2, "Hike"),
    ("Swim", "Swim", 0.04, 0.9, "Swim"),
)
_INDOORS = frozenset({"VirtualRide", "Swim"})
_RIDES = frozenset({"Ride", "VirtualRide", "GravelRide", "MountainBikeRide", "EBikeRide"})
_DEVICES = ("Garmin Forerunner 265", "Garmin Edge 840", "Wahoo ELEMNT BOLT", "COROS PACE 3")

ELAPSED_S = (1_500, 7_200)


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One activity of an athlete."""

    id: int
    athlete_id: int
    name: str
    sport_type: str
    type: str
    #: Seconds since the epoch.
    start_s: int
    utc_offset_s: int
    timezone: str
    elapsed_s: int
    moving_s: int
    distance_m: float
    climb_m: float
    #: Entered by hand; nothing was measured then.
    manual: bool = False
    #: Whether there are streams.
    measured: bool = True
    trainer: bool = False
    commute: bool = False
    #: Visible to the athlete only.
    private: bool = False
    average_heartrate: float | None = None
    average_watts: float | None = None
    origin: tuple[float, float] | None = None
    device_name: str | None = None
    external_id: str | None = None
    upload_id: int | None = None
    description: str | None = None

    def start_date(self, after_s: int = 0) -> str:
        """The start plus `after_s` seconds, as Strava writes it."""
        return moment_text(self.start_s + after_s)

    def start_date_local(self, after_s: int = 0) -> str:
        """The same moment on the athlete's wall clock; Strava adds a Z, though it is not UTC."""
        return moment_text(self.start_s + after_s + self.utc_offset_s)


class Place(msgspec.Struct, frozen=True):
    """What is known of an activity before it is drawn: its id, athlete, start and place."""

    id: int
    athlete_id: int
    start_s: int
    utc_offset_s: int
    timezone: str
    home: tuple[float, float]


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of drawn activities with special traits; each is between 0 and 1."""

    manual: float = 0.08
    private: float = 0.03
    no_heartrate: float = 0.15
    #: Recorded by a device that measured nothing.
    unmeasured: float = 0.0


def draw_activity(seed: int, place: Place, shares: Shares, points: int) -> Activity:
    """Draw the activity of this place; it depends on the seed and the place's id alone."""
    rng = draw(seed, "activity", place.id)
    sport, kind, _, speed, noun = rng.choices(_SPORTS, [each[2] for each in _SPORTS])[0]
    # At least long enough for that many points, one a second.
    elapsed_s = max(rng.randint(*ELAPSED_S), points - 1)
    moving_s = int(elapsed_s * rng.uniform(0.9, 1.0))
    manual = rng.random() < shares.manual
    indoors = sport in _INDOORS
    lat, lng = place.home
    heartrate = rng.random() >= shares.no_heartrate
    return Activity(
        id=place.id,
        athlete_id=place.athlete_id,
        name=f"{part_of_day(place.start_s + place.utc_offset_s)} {noun}",
        sport_type=sport,
        type=kind,
        start_s=place.start_s,
        utc_offset_s=place.utc_offset_s,
        timezone=place.timezone,
        elapsed_s=elapsed_s,
        moving_s=moving_s,
        distance_m=round(moving_s * speed * rng.uniform(0.8, 1.2), 1),
        climb_m=0.0 if indoors else round(rng.uniform(5, 400), 1),
        manual=manual,
        measured=not manual and fraction(seed, "measured", place.id) >= shares.unmeasured,
        trainer=indoors and not manual,
        commute=rng.random() < 0.05,
        private=rng.random() < shares.private,
        average_heartrate=round(rng.uniform(118, 158), 1) if heartrate and not manual else None,
        average_watts=round(rng.uniform(120, 260), 1) if sport in _RIDES and not manual else None,
        origin=None
        if indoors or manual
        else (round(lat + rng.uniform(-0.02, 0.02), 6), round(lng + rng.uniform(-0.02, 0.02), 6)),
        device_name=None if manual else rng.choice(_DEVICES),
        external_id=None if manual else f"garmin_ping_{place.id + 7_000_000_000}",
        upload_id=None if manual else place.id + 1_000_000_000,
    )


def type_of(sport_type: str) -> str:
    """The older, coarser type that a sport falls under."""
    return next((kind for sport, kind, *_ in _SPORTS if sport == sport_type), sport_type)


def part_of_day(local_s: int) -> str:
    """Strava's word for this time of day."""
    hour = local_s // 3_600 % 24
    for until, word in ((4, "Night"), (11, "Morning"), (14, "Lunch"), (17, "Afternoon")):
        if hour < until:
            return word
    return "Evening" if hour < 22 else "Night"


def moment_text(seconds: int) -> str:
    """Whole seconds since the epoch as `2026-01-01T00:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
