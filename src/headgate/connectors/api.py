"""What an API is like, as data: where it is, how it errs and counts, how patient we are with it."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypedDict

import msgspec

from headgate.base.errors import InvalidInput, SourceError, Terminal
from headgate.connectors.answers import Classify
from headgate.connectors.rates import Counts
from headgate.connectors.urls import Origin, origin_of
from headgate.policy.retry import RetryPolicy
from headgate.ports.transport import Timeouts

#: How often a request is tried within one chunk; what fails more often fails the chunk, and the
#: job's own, far more patient policy decides.
TRIES_MAX = 3
#: Between two tries: half a second, then a whole one, with the upper half drawn at random.
PAUSES = RetryPolicy(backoff_s=0.5, backoff_factor=2.0, backoff_s_max=8.0)


class Redirects(msgspec.Struct, frozen=True, kw_only=True):
    """Where redirects may lead to. Without this, none is followed."""

    #: Hosts with their ports, as patterns: `peer-*.api.roamresearch.com:3001`.
    hosts: tuple[str, ...]
    #: Send the credentials there too. Else they stay with the host they were meant for.
    keep_auth: bool = False


class ApiOptions(TypedDict, total=False):
    """What an `Api` may be told besides its address; see there."""

    headers: Mapping[str, str]
    classify: Classify | None
    not_found: type[SourceError]
    counts: Counts | None
    redirects: Redirects | None
    hosts: tuple[str, ...]
    timeouts: Timeouts
    tries_max: int
    pauses: RetryPolicy


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's API."""

    #: What paths are under: `https://www.strava.com/api/v3`.
    base_url: str
    #: Sent with every request.
    headers: Mapping[str, str] = {}
    #: What the provider's answers mean, where their status does not say.
    classify: Classify | None = None
    #: What a 404 means, unless a request says otherwise.
    not_found: type[SourceError] = Terminal
    #: Reads the provider's own counts from an answer's headers.
    counts: Counts | None = None
    redirects: Redirects | None = None
    #: Other hosts that links in answers may lead to, as patterns like those of redirects. They are
    #: sent the credentials.
    hosts: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    tries_max: int = TRIES_MAX
    pauses: RetryPolicy = PAUSES

    def __post_init__(self) -> None:
        """Refuse what could never work."""
        origin_of(self.base_url)
        if "?" in self.base_url or "#" in self.base_url:
            raise InvalidInput("base_url", "must be without a query and a fragment")
        if self.tries_max < 1:
            raise InvalidInput("tries_max", "must be at least 1")
        if min(self.timeouts.connect_s, self.timeouts.total_s, self.timeouts.bytes_max) <= 0:
            raise InvalidInput("timeouts", "every limit must be above 0")

    @property
    def origin(self) -> Origin:
        """Who is called."""
        return origin_of(self.base_url)

    @property
    def ports(self) -> frozenset[int]:
        """Every port that it is declared to use."""
        redirects = self.redirects.hosts if self.redirects else ()
        named = [each.rpartition(":")[2] for each in (*self.hosts, *redirects) if ":" in each]
        return frozenset([self.origin.port, *(int(port) for port in named if port.isdigit())])

    def allows(self, origin: Origin) -> bool:
        """Whether a request, with credentials, may go there."""
        return origin == self.origin or self._is_of(self.hosts, origin)

    def allows_redirect(self, origin: Origin) -> bool:
        """Whether a redirect may lead there."""
        return self.redirects is not None and (
            self.allows(origin) or self._is_of(self.redirects.hosts, origin)
        )

    def _is_of(self, patterns: tuple[str, ...], origin: Origin) -> bool:
        # Never from https down to http.
        same_scheme = origin.scheme == self.origin.scheme
        return same_scheme and any(matches(each, origin) for each in patterns)


def matches(pattern: str, origin: Origin) -> bool:
    """Whether a host pattern is meant for an origin; one without a port means the scheme's own.

    A star stands for a part of one name between two dots: else `a-*.example` would also be meant
    for `a-1.evil.example`.
    """
    host, colon, port = pattern.lower().rpartition(":")
    if not colon:
        return origin.is_default_port and _names_match(pattern.lower(), origin.host)
    return str(origin.port) == port and _names_match(host, origin.host)


def _names_match(pattern: str, host: str) -> bool:
    wanted, there = pattern.split("."), host.split(".")
    return len(wanted) == len(there) and all(map(fnmatchcase, there, wanted))
