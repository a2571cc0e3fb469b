"""What a provider's answer means: from a status and a body to an error by consequence, or none.

A connector's own classifier is asked first, because providers hide errors in 200s and 403s; where
it says nothing, the status decides.
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

#: A provider that says "come back in a year", or "a second ago", is understood as this.
RETRY_AFTER_S_MAX = 24 * 3600.0
RETRY_AFTER_S_MIN = 1.0

_TOO_EARLY, _TIME_OUT, _TOO_MANY = 425, 408, 429


class Throttled(msgspec.Struct, frozen=True):
    """The provider's limit is spent, whatever status it says so with."""

    #: Where the answer says for how long.
    retry_after_s: float | None = None


Verdict = SourceError | Throttled | None
#: What a connector knows of an answer; None leaves it to the status. AuthExpired makes the client
#: renew the credentials and try once more; Transient makes it try again a few times.
Classify = Callable[[Response], Verdict]


def by_status(response: Response, *, not_found: type[SourceError] = Terminal) -> Verdict:
    """What the status says by itself. `not_found`: what a 404 means to this connector."""
    status, told = response.status, f"{without_query(response.url)} said {response.status}"
    match status:
        case _ if 200 <= status < 300:
            return None
        case 401:
            return AuthExpired(f"{told}: the credentials are not accepted")
        case 403:
            return Forbidden(f"{told}: access is refused")
        case 404 | 410:
            return not_found(f"{told}: there is nothing here")
        case _ if status == _TOO_MANY:
            return Throttled()
        case _ if status in (_TIME_OUT, _TOO_EARLY) or status >= 500:
            return Transient(told)
        case _ if 300 <= status < 400:
            # A page to log in, or to wait: it may pass. Where it leads to is not ours to tell.
            return Malformed(f"{told}: it redirects, and this connector does not follow")
        case _:
            return Terminal(f"{told}: the request is not accepted")


def retry_after_s(headers: Headers, now: datetime) -> float | None:
    """How long the provider asks to wait, as seconds or as a date; None where it does not say.

    A date is compared with the provider's own clock, where the answer tells it: ours may be wrong.
    """
    said = (headers.get("retry-after") or "").strip()
    if not said:
        return None
    seconds = _as_seconds(said)
    if seconds is None:
        until = _as_date(said)
        if until is None:
            return None
        seconds = (until - (_as_date(headers.get("date") or "") or now)) / timedelta(seconds=1)
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
