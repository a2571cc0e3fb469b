"""This module holds the users and their check-ins; it knows nothing of HTTP."""

from datetime import datetime

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate_sandbox.foursquare.checkin import (
    VENUES,
    Checkin,
    User,
    checkin_id,
    draw_checkin,
    draw_user,
)
from headgate_sandbox.kit.forms import digits
from headgate_sandbox.kit.seeded import fraction
from headgate_sandbox.kit.timeline import Pace, Timeline

DAY_S = 86_400
FIRST_USER_ID = 2_000_001
USERS_MAX = 100_000
CHECKINS_MAX = 10_000_000
YEAR_END = 2_100


class NewCheckin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check-in to be made at run time."""

    #: None means the first user.
    user: str | None = None
    #: None means now. An earlier moment stands for a check-in made offline that arrives only now.
    created_at: datetime | None = None
    venue_name: str | None = None
    shout: str | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values; the error names the field."""
        if self.created_at is not None:
            if self.created_at.tzinfo is None:
                raise InvalidInput("created_at", "needs a time zone, such as 2026-01-01T00:00:00Z")
            if not 1970 < self.created_at.year < YEAR_END:
                raise InvalidInput("created_at", f"must be after 1970 and before {YEAR_END}")


class World:
    """All users and their check-ins."""

    def __init__(self, clock: Clock, *, seed: int, users: int, checkins: int) -> None:
        """Offer that many users, with that many check-ins each; all are drawn when asked for."""
        if not 1 <= users <= USERS_MAX:
            raise InvalidInput("users", f"must be between 1 and {USERS_MAX}")
        self.seed = seed
        self._clock = clock
        # A midnight, so that equal seeds give equal dates all day long.
        self._newest_s = self._now_s() // DAY_S * DAY_S
        self._sizes = [_checked(checkins)] * users
        self._timelines: dict[str, Timeline[Checkin]] = {}

    @property
    def user_ids(self) -> range:
        """The ids of all users."""
        return range(FIRST_USER_ID, FIRST_USER_ID + len(self._sizes))

    def has(self, user_id: str) -> bool:
        """Whether that user exists."""
        return digits(user_id) in self.user_ids

    def user(self, user_id: str) -> User:
        """The user of that id, who must exist."""
        return draw_user(self.seed, user_id)

    def add_user(self, checkins: int) -> User:
        """Add a user with that many check-ins."""
        if len(self._sizes) >= USERS_MAX:
            raise InvalidInput("users", f"there are {USERS_MAX} already")
        self._sizes.append(_checked(checkins))
        return self.user(str(self.user_ids[-1]))

    def timeline(self, user_id: str) -> Timeline[Checkin]:
        """The check-ins of a user, who must exist."""
        found = self._timelines.get(user_id)
        if found is None:
            drawn = self._sizes[self.user_ids.index(int(user_id))]
            found = self._timelines[user_id] = self._draw_timeline(user_id, drawn)
        return found

    def add(self, new: NewCheckin) -> Checkin:
        """Add a check-in."""
        user_id = str(self.user_ids[0]) if new.user is None else new.user
        if not self.has(user_id):
            raise InvalidInput("user", f"there is no user {user_id}")
        timeline = self.timeline(user_id)
        created_s = self._now_s()
        if new.created_at is not None:
            created_s = int(new.created_at.timestamp())
        checkin = Checkin(
            id=checkin_id(self.seed, user_id, timeline.size),
            created_s=created_s,
            venue=timeline.size % VENUES,
            venue_name=new.venue_name,
            shout=new.shout,
        )
        timeline.add(created_s, checkin)
        return checkin

    def _draw_timeline(self, user_id: str, drawn: int) -> Timeline[Checkin]:
        pace = Pace(drawn=drawn, newest_s=self._newest_s)

        def moment_of(index: int) -> int:
            return pace.moment_s(index, fraction(self.seed, "created", user_id, index))

        def build(index: int) -> Checkin:
            return draw_checkin(self.seed, user_id, index, moment_of(index))

        return Timeline(drawn, moment_of=moment_of, build=build)

    def _now_s(self) -> int:
        return int(self._clock.now().timestamp())


def _checked(checkins: int) -> int:
    if not 0 <= checkins <= CHECKINS_MAX:
        raise InvalidInput("checkins", f"must be between 0 and {CHECKINS_MAX}")
    return checkins
