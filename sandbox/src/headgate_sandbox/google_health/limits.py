"""This module applies Google's quotas: a user's per minute, the project's per minute and day.

Here a minute begins on the minute, and a refused request does not count; Google documents neither.
"""

import msgspec
from starlette.responses import Response

from headgate_sandbox.google_health.answers import rate_limited
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.windows import Window

MINUTE_S = 60
DAY_S = 86_400

USER_MINUTE, PROJECT_MINUTE, PROJECT_DAY = "user_minute", "project_minute", "project_day"
_PROJECT = (PROJECT_MINUTE, PROJECT_DAY)

#: The name of each limit in a 429.
_TITLES = {
    USER_MINUTE: "Requests per minute per user",
    PROJECT_MINUTE: "Requests per minute",
    PROJECT_DAY: "Requests per day",
}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a project; the defaults are Google's."""

    user_minute: int = 300
    project_minute: int = 120_000
    project_day: int = 86_400_000

    def windows(self) -> list[Window]:
        """The three windows."""
        return [
            _window(USER_MINUTE, self.user_minute, MINUTE_S),
            _window(PROJECT_MINUTE, self.project_minute, MINUTE_S),
            _window(PROJECT_DAY, self.project_day, DAY_S),
        ]


def count(meter: Meter, user: str) -> Response | None:
    """Count one request of that user, and refuse it if a quota is spent."""
    own = meter.arrive(user, windows=(USER_MINUTE,))
    if own.beyond:
        return rate_limited(_TITLES[USER_MINUTE], own.limits[USER_MINUTE])
    shared = meter.arrive(windows=_PROJECT)
    if shared.beyond:
        spent = shared.beyond[0]
        return rate_limited(_TITLES[spent], shared.limits[spent])
    return None


def _window(name: str, limit: int, seconds: int) -> Window:
    return Window(name=name, limit=limit, seconds=seconds, counts_refused=False)
