"""Reads a provider's own counts of our requests from the headers of its responses.

A reader turns headers into counts, by the limit's name. The headers are not reliable: what cannot
be read is left out, and our own count goes on without it.
"""

from collections.abc import Callable, Mapping, Sequence

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.ports.transport import Headers

#: Reads the provider's own counts from headers, by the limit's name.
Counts = Callable[[Headers], Mapping[str, int]]

#: A larger number is not a count: no limit is that large.
COUNT_MAX = 10**12

_log = get_logger(__name__)


def read_list(header: str, limits: Sequence[str]) -> Counts:
    """Return a reader of counts listed in one header, such as `X-RateLimit-Usage: 9,345`."""

    def read(headers: Headers) -> Mapping[str, int]:
        parts = (headers.get(header) or "").split(",")
        if len(parts) != len(limits):
            return {}
        counts = zip(limits, (_count(part) for part in parts), strict=True)
        return {limit: count for limit, count in counts if count is not None}

    return read


def read_remaining(header: str, limit: str, *, of: int) -> Counts:
    """Return a reader of what is left of a limit, such as `X-RateLimit-Remaining: 498` of 500."""

    def read(headers: Headers) -> Mapping[str, int]:
        left = _count(headers.get(header) or "")
        return {} if left is None or left > of else {limit: of - left}

    return read


def read_all(*readers: Counts) -> Counts:
    """Combine several readers into one."""

    def read(headers: Headers) -> Mapping[str, int]:
        return {limit: count for each in readers for limit, count in each(headers).items()}

    return read


def read_safely(counts: Counts, headers: Headers) -> Mapping[str, int]:
    """Run a connector's reader; if it fails, return no counts: the response itself is fine."""
    try:
        read = counts(headers)
        return {name: count for name, count in read.items() if 0 <= int(count) <= COUNT_MAX}
    except Exception as error:
        _log.warning(LogEvent.COUNTS_UNREADABLE, error=describe_error(error))
        return {}


def _count(text: str) -> int | None:
    text = text.strip()
    # Not `isdigit` alone: it accepts ², which int does not.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_MAX))):
        return None
    return int(text)
