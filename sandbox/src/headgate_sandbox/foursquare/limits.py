"""This module applies Foursquare's limits, by the hour and by the day.

The hour counts for each token and group of endpoints. The hour is rolling, as Foursquare's older
documents say. A refused request does not count, which is not documented. The day is a UTC day, and
counts for the whole application.
"""

import msgspec
from starlette.datastructures import MutableHeaders

from headgate_sandbox.kit.meter import Meter, Reading
from headgate_sandbox.kit.windows import Window

HOUR, DAY = "hour", "day"
#: When a planned refusal says that the hour is free again.
PLANNED_RESET_S = 600


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an application; the defaults are those of a personal account."""

    hour: int = 500
    day: int = 99_500

    def windows(self) -> list[Window]:
        """The two windows."""
        return [
            Window(name=HOUR, limit=self.hour, seconds=3_600, rolling=True, counts_refused=False),
            Window(name=DAY, limit=self.day, seconds=86_400, counts_refused=False),
        ]


def key_of(token: str, path: str) -> str:
    """The key of the hourly count; `/v2/users/self/checkins` belongs to the group `users`."""
    group = path.removeprefix("/v2/").partition("/")[0]
    return f"{group}:{token}"


def count(meter: Meter, key: str) -> tuple[Reading, str | None]:
    """Count a request; returns the reading of its hour and the window that refuses it, if any."""
    hour = meter.arrive(key, windows=(HOUR,))
    if hour.beyond:
        return hour, HOUR
    day = meter.arrive(windows=(DAY,))
    return hour, DAY if day.beyond else None


def add_planned_headers(headers: MutableHeaders, *, now_s: int) -> None:
    """Add the headers of a spent hour to a refusal that a test has planned."""
    headers["X-RateLimit-Remaining"] = "0"
    headers["X-RateLimit-Reset"] = str(now_s + PLANNED_RESET_S)


def add_headers(headers: MutableHeaders, reading: Reading, *, now_s: int) -> None:
    """Add what is left of the hour; if it is spent, also when the next request is free."""
    limit = reading.limits[HOUR]
    headers["X-RateLimit-Limit"] = str(limit)
    headers.setdefault("X-RateLimit-Remaining", str(max(0, limit - reading.used[HOUR])))
    if reading.beyond:
        headers["X-RateLimit-Reset"] = str(now_s + reading.resets_in_s[HOUR])
