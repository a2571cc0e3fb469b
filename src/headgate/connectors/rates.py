"""What a provider tells about our use of its limits, in headers that cannot be relied on.

A reader turns headers into counts by the limit's name. What cannot be read is left out: our own
count goes on without it.
"""

from collections.abc import Callable, Mapping, Sequence

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.ports.transport import Headers

#: From an answer's headers to the provider's own counts, by the limit's name.
Counts = Callable[[Headers], Mapping[str, int]]

#: No limit is larger; what is, is no count.
COUNT_MAX = 10**12

_log = get_logger(__name__)


def listed(header: str, limits: Sequence[str]) -> Counts:
    """A reader for a list of counts in one header, such as `X-RateLimit-Usage: 9,345`."""

    def read(headers: Headers) -> Mapping[str, int]:
        parts = (headers.get(header) or "").split(",")
        if len(parts) != len(limits):
            return {}
        counts = zip(limits, (_count(part) for part in parts), strict=True)
        return {limit: count for limit, count in counts if count is not None}

    return read


def remaining(header: str, limit: str, *, of: int) -> Counts:
    """A reader for what is left of a limit, such as `X-RateLimit-Remaining: 498` of 500."""

    def read(headers: Headers) -> Mapping[str, int]:
        left = _count(headers.get(header) or "")
        return {} if left is None or left > of else {limit: of - left}

    return read


def together(*readers: Counts) -> Counts:
    """All of these readers."""

    def read(headers: Headers) -> Mapping[str, int]:
        return {limit: count for each in readers for limit, count in each(headers).items()}

    return read


def read_safely(counts: Counts, headers: Headers) -> Mapping[str, int]:
    """What a connector's reader says; nothing where it fails, because an answer came anyway."""
    try:
        told = counts(headers)
        return {name: count for name, count in told.items() if 0 <= int(count) <= COUNT_MAX}
    except Exception as error:
        _log.warning(LogEvent.COUNTS_UNREADABLE, error=describe_error(error))
        return {}


def _count(text: str) -> int | None:
    text = text.strip()
    # Not `isdigit` alone: it takes ², which int does not.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_MAX))):
        return None
    return int(text)
