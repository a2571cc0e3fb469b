"""This module applies Strava's rate limits: overall and read, each per quarter-hour and UTC day.

Every request is a read except creating an activity or an upload. A refused request counts in every
window: Strava documents this for the day, and recorded usage exceeds the quarter-hour's limit too.
"""

import msgspec
from starlette.datastructures import MutableHeaders

from headgate_sandbox.kit.meter import Reading
from headgate_sandbox.kit.windows import Window

QUARTER_S = 900
DAY_S = 86_400

OVERALL = ("overall_15min", "overall_day")
READ = ("read_15min", "read_day")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an application; the defaults are those of a new one."""

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
    """The field that a 429 names; for the read limit it is a guess, since none was recorded."""
    overall = any(window in reading.beyond for window in OVERALL)
    return "overall rate limit" if overall else "read rate limit"


def add_headers(headers: MutableHeaders, reading: Reading, *, creates_activity: bool) -> None:
    """Add the headers of the overall and the read limits; usage includes this request."""
    headers["X-RateLimit-Limit"] = _pair(reading.limits, OVERALL)
    headers["X-RateLimit-Usage"] = _pair(reading.used, OVERALL)
    headers["X-ReadRateLimit-Limit"] = _pair(reading.limits, READ)
    # Recorded from Strava: on POST /activities there are no numbers, only the comma.
    headers["X-ReadRateLimit-Usage"] = "," if creates_activity else _pair(reading.used, READ)


def _pair(values: dict[str, int], names: tuple[str, ...]) -> str:
    return ",".join(str(values[name]) for name in names)
