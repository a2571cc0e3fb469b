"""Foursquare's limits: by the hour for each token and group of endpoints, and by the day for all.

The hour is a moving one, and a refused request does not count: the older documents say the first,
and nobody says the second. The day is the application's, in UTC.
"""

import msgspec
from starlette.datastructures import MutableHeaders

from headgate.sandbox.kit.meter import Meter, Reading
from headgate.sandbox.kit.windows import Window

HOUR, DAY = "hour", "day"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What an application may do; the defaults are those of a personal account."""

    hour: int = 500
    day: int = 99_500

    def windows(self) -> list[Window]:
        """The two windows."""
        return [
            Window(name=HOUR, limit=self.hour, seconds=3_600, rolling=True, counts_refused=False),
            Window(name=DAY, limit=self.day, seconds=86_400, counts_refused=False),
        ]


def key_of(token: str, path: str) -> str:
    """What the hour is counted by: `/v2/users/self/checkins` belongs to the group `users`."""
    group = path.removeprefix("/v2/").partition("/")[0]
    return f"{group}:{token}"


def count(meter: Meter, key: str) -> tuple[Reading, str | None]:
    """Count one request: the reading of its hour, and the window that refuses it, if any."""
    hour = meter.arrive(key, windows=(HOUR,))
    if hour.beyond:
        return hour, HOUR
    day = meter.arrive(windows=(DAY,))
    return hour, DAY if day.beyond else None


def add_headers(headers: MutableHeaders, reading: Reading, *, now_s: int) -> None:
    """How much of the hour is left; and when it is spent, the moment something is free again."""
    limit = reading.limits[HOUR]
    headers["X-RateLimit-Limit"] = str(limit)
    headers["X-RateLimit-Remaining"] = str(max(0, limit - reading.used[HOUR]))
    if reading.beyond:
        headers["X-RateLimit-Reset"] = str(now_s + reading.resets_in_s[HOUR])
