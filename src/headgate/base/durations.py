"""Durations as people write them in code and settings: `90s`, `2m`, `4h`, `30d`, `1h30m`."""

import re
from datetime import timedelta

from headgate.base.errors import InvalidInput

#: A longer duration is a mistake in the unit.
DURATION_MAX = timedelta(days=3660)

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PART = re.compile(r"(\d{1,9})\s*(s|min|m|h|d|w)\s*", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def parse_duration(field: str, given: str | timedelta) -> timedelta:
    """Return the duration; InvalidInput names `field` if it cannot be read or is too long."""
    if isinstance(given, str):
        text = given.strip()
        if not _WHOLE.fullmatch(text):
            raise InvalidInput(field, f"{given!r} is not a duration, such as 90s, 2m, 4h or 30d")
        seconds = sum(int(count) * _UNITS_S[unit] for count, unit in _PART.findall(text))
        # More than a timedelta can hold is too long in any case.
        given = timedelta(seconds=min(seconds, 2 * DURATION_MAX.total_seconds()))
    if not timedelta(0) <= given <= DURATION_MAX:
        raise InvalidInput(field, "must be between 0 and ten years")
    return given


def format_duration(span: timedelta) -> str:
    """The duration as people write it, in whole seconds: `1d`, `1h30m`, `0s`."""
    left_s, parts = int(span.total_seconds()), list[str]()
    for unit in ("d", "h", "m", "s"):
        count, left_s = divmod(left_s, _UNITS_S[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
