"""Time zones by name, and the instants of the times that clocks on a wall show.

Twice a year a wall clock is set: it skips an hour, whose times never come, or repeats one, whose
times come twice. Instants are aware datetimes in UTC.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from headgate.base.errors import InvalidInput

#: No zone has a longer name.
ZONE_LENGTH_MAX = 100
_SECOND = timedelta(seconds=1)


def find_zone(field: str, name: str) -> tzinfo:
    """Return the zone of that name; InvalidInput names `field` if there is none.

    UTC is there even where the machine has no database of zones.
    """
    if name == "UTC":
        return UTC
    zone = _load(name) if len(name) <= ZONE_LENGTH_MAX else None
    if zone is None:
        raise InvalidInput(field, f"{name!r} is not a time zone, such as UTC or Europe/Berlin")
    return zone


@lru_cache(maxsize=1024)
def _load(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # Unknown; not a relative path; a folder of zones, such as "America".
        return None


def instants_of(wall: datetime, zone: tzinfo) -> tuple[datetime, ...]:
    """The instants at which clocks in the zone show `wall`: none, one or two, in order."""
    earlier, later = _by_offset(wall, zone)
    if earlier == later:
        return (earlier,)
    return (earlier, later) if earlier < later else ()


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """The first instant at which clocks in the zone show `wall`, or go past it by being set."""
    before, after = _by_offset(wall, zone)
    if before <= after:
        return before
    # The clock skips it between `after` and `before`: find the instant at which it is set.
    low, high = after, before
    offset = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def wall_of(at: datetime, zone: tzinfo) -> datetime:
    """What clocks in the zone show at that instant, as a naive datetime."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _by_offset(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The instants by the offset from before a change of the clock, and by that from after it."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return first, wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
