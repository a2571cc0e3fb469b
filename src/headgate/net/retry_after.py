"""How long a response asks to wait: its Retry-After, in seconds or as a time, within bounds."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from headgate.ports.transport import Headers

#: Bounds of Retry-After: a provider may say "in a year", or "a second ago".
RETRY_AFTER_S_MAX = 24 * 3600.0
RETRY_AFTER_S_MIN = 1.0


def retry_after_s(headers: Headers, now: datetime) -> float | None:
    """Return how long the provider asks to wait; None if it does not say."""
    value = (headers.get("retry-after") or "").strip()
    if not value:
        return None
    seconds = _as_seconds(value)
    if seconds is not None:
        return _bounded(seconds)
    until = _as_date(value)
    return None if until is None else seconds_until(until, headers, now)


def seconds_until(until: datetime, headers: Headers, now: datetime) -> float:
    """How long that is, by the provider's own clock if the response has it: ours may be wrong."""
    here = _as_date(headers.get("date") or "") or now
    return _bounded((until - here) / timedelta(seconds=1))


def _bounded(seconds: float) -> float:
    return min(max(seconds, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX)


def _as_seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else seconds


def _as_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
        # "-0000" says that the zone is not known; HTTP has only one.
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
