"""Classifies a provider's response: as success, as throttled, or as an error by its consequence.

A connector's own classifier comes first, because providers hide errors in 200s and 403s; where it
returns None, the status decides.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from headgate.base.errors import (
    AuthExpired,
    Forbidden,
    Malformed,
    SourceError,
    Terminal,
    Transient,
)
from headgate.net.retry_after import retry_after_s, seconds_until
from headgate.ports.transport import Headers, Response, without_query

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
        return seconds_until(verdict.until, headers, now)
    return retry_after_s(headers, now)
