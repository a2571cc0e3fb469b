"""Strava's rate limits: overall and for reading, each by the quarter-hour and by the UTC day.

Reading is everything but creating activities and uploads. A refused request counts in every window:
Strava says so of the day, and its recorded usage runs past the limit in the quarter-hour too.
"""

import msgspec
from starlette.datastructures import MutableHeaders

from headgate.sandbox.kit.meter import Reading
from headgate.sandbox.kit.windows import Window

QUARTER_S = 900
DAY_S = 86_400

OVERALL = ("overall_15min", "overall_day")
READ = ("read_15min", "read_day")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What an application may do; the defaults are a new application's."""

    overall_15min: int = 200
    overall_day: int = 2_000
    read_15min: int = 100
    read_day: int = 1_000

    def windows(self) -> list[Window]:
        """The four windows."""
        return [
            Window(name="overall_15min", limit=self.overall_15min, seconds=QUARTER_S),
            Window(name="overall_day", limit=self.overall_day, seconds=DAY_S),
            Window(name="read_15min", limit=self.read_15min, seconds=QUARTER_S),
            Window(name="read_day", limit=self.read_day, seconds=DAY_S),
        ]


def windows_of(*, writes: bool) -> tuple[str, ...]:
    """The windows that a request counts against."""
    return OVERALL if writes else OVERALL + READ


def refused_field(reading: Reading) -> str:
    """What the 429 names. The words for the read limit are a guess: none was ever recorded."""
    overall = any(window in reading.beyond for window in OVERALL)
    return "overall rate limit" if overall else "read rate limit"


def add_headers(headers: MutableHeaders, reading: Reading, *, creates_activity: bool) -> None:
    """Both families of headers; usage includes the request itself."""
    headers["X-RateLimit-Limit"] = _pair(reading.limits, OVERALL)
    headers["X-RateLimit-Usage"] = _pair(reading.used, OVERALL)
    headers["X-ReadRateLimit-Limit"] = _pair(reading.limits, READ)
    # Recorded from the real thing: on POST /activities there are no numbers, only the comma.
    headers["X-ReadRateLimit-Usage"] = "," if creates_activity else _pair(reading.used, READ)


def _pair(values: dict[str, int], names: tuple[str, ...]) -> str:
    return ",".join(str(values[name]) for name in names)
