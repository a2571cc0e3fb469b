"""Classifies a provider's response: as success, as throttled, or as an error by its consequence.

A connector's own classifier comes first, because providers hide errors in 200s and 403s; where it
returns None, the status decides.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from headgate.base.errors import (
    AuthExpired,
    Forbidden,
    Malformed,
    SourceError,
    Terminal,
    Transient,
)
from headgate.ports.transport import Headers, Response, without_query

#: Bounds of Retry-After: a provider may say "in a year", or "a second ago".
RETRY_AFTER_S_MAX = 24 * 3600.0
RETRY_AFTER_S_MIN = 1.0

_TOO_EARLY, _TIME_OUT, _TOO_MANY = 425, 408, 429


class Throttled(msgspec.Struct, frozen=True):
    """The verdict that the provider's limit is spent, whatever the status says."""

    #: How long to wait, if the response says it,
    retry_after_s: float | None = None
    #: or until when, by the provider's clock.
    until: datetime | None = None
    #: The name of the limit that is spent, if the response says it: `day`, `hour per connection`.
    limit: str | None = None


Verdict = SourceError | Throttled | None
#: A connector's own classifier; None leaves it to the status. AuthExpired makes the client renew
#: the credentials and try once more; Transient makes it retry a few times.
Classify = Callable[[Response], Verdict]


def classify_status(response: Response, *, not_found: type[SourceError] = Terminal) -> Verdict:
    """Classify a response by its status; `not_found` is the error for a 404."""
    status, problem = response.status, f"{without_query(response.url)} said {response.status}"
    match status:
        case _ if 200 <= status < 300:
            return None
        case 401:
            return AuthExpired(f"{problem}: the credentials are not accepted")
        case 403:
            return Forbidden(f"{problem}: access is refused")
        case 404 | 410:
            return not_found(f"{problem}: there is nothing here")
        case _ if status == _TOO_MANY:
            return Throttled()
        case _ if status in (_TIME_OUT, _TOO_EARLY) or status >= 500:
            return Transient(problem)
        case _ if 300 <= status < 400:
            # Perhaps a page to log in or to wait, so it may pass. The target may hold a secret.
            return Malformed(f"{problem}: it redirects, and this connector does not follow")
        case _:
            return Terminal(f"{problem}: the request is not accepted")


def throttled_s(verdict: Throttled, headers: Headers, now: datetime) -> float | None:
    """Return how long a throttled response asks to wait; None if it does not say."""
    if verdict.retry_after_s is not None:
        return verdict.retry_after_s
    if verdict.until is not None:
        return _seconds_until(verdict.until, headers, now)
    return retry_after_s(headers, now)


def retry_after_s(headers: Headers, now: datetime) -> float | None:
    """Return how long the provider asks to wait; None if it does not say."""
    value = (headers.get("retry-after") or "").strip()
    if not value:
        return None
    seconds = _as_seconds(value)
    if seconds is not None:
        return _bounded(seconds)
    until = _as_date(value)
    return None if until is None else _seconds_until(until, headers, now)


def _seconds_until(until: datetime, headers: Headers, now: datetime) -> float:
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
