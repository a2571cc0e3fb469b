"""`Api`, the description of a provider's HTTP API: address, errors, counts, time-outs, retries."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypedDict

import msgspec

from headgate.base.errors import InvalidInput, SourceError, Terminal
from headgate.connectors.http.answers import Classify
from headgate.connectors.http.rates import Counts
from headgate.net.urls import Origin, origin_of
from headgate.policy.retry import RetryPolicy
from headgate.ports.transport import Timeouts

#: Attempts of a request within one chunk. After that the chunk fails, and the job's own, far more
#: patient policy decides.
TRIES_MAX = 3
#: The pause between attempts: half a second, then one, with the upper half drawn at random.
PAUSES = RetryPolicy(backoff_s=0.5, backoff_factor=2.0, backoff_s_max=8.0)


class Redirects(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that redirects may lead to. Without it, no redirect is followed."""

    #: Hosts with their ports, as patterns: `peer-*.api.roamresearch.com:3001`.
    hosts: tuple[str, ...]
    #: Whether to send the credentials there too.
    keep_auth: bool = False
    #: The parts of the API that move as a whole, as a pattern of the path: with `/graphs/*`, later
    #: requests for the same graph go straight to where one was permanently redirected (301, 308).
    #: After an error the known address is asked again. Without it, nothing is remembered.
    remember: str | None = None

    def __post_init__(self) -> None:
        """Refuse a pattern that could match nothing."""
        if self.remember is not None and not self.remember.strip("/"):
            raise InvalidInput("redirects.remember", "names no part of the path; write `/*`")


class ApiOptions(TypedDict, total=False):
    """The options of a provider's API besides its address; all are optional."""

    #: Sent with every request.
    headers: Mapping[str, str]
    #: Classifies responses whose status does not say enough: returns an error, `Throttled` or None.
    classify: Classify | None
    #: The error for a 404, unless a request names another; by default `Terminal`.
    not_found: type[SourceError]
    #: Reads the provider's own counts from the headers of a response.
    counts: Counts | None
    #: The hosts that redirects may lead to; by default none is followed.
    redirects: Redirects | None
    #: Other hosts that links in responses may lead to, as patterns like those of redirects. They
    #: get the credentials too.
    hosts: tuple[str, ...]
    #: The limits of one request, in time and in size.
    timeouts: Timeouts
    #: Attempts of a request within one chunk; by default three.
    tries_max: int
    #: The pauses between these attempts; by default half a second, then one.
    pauses: RetryPolicy


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP API of one provider: its address, and what `ApiOptions` describes."""

    base_url: str
    headers: Mapping[str, str] = {}
    classify: Classify | None = None
    not_found: type[SourceError] = Terminal
    counts: Counts | None = None
    redirects: Redirects | None = None
    hosts: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    tries_max: int = TRIES_MAX
    pauses: RetryPolicy = PAUSES

    def __post_init__(self) -> None:
        """Refuse fields that could never work."""
        origin_of(self.base_url)
        if "?" in self.base_url or "#" in self.base_url:
            raise InvalidInput("base_url", "must be without a query and a fragment")
        if self.tries_max < 1:
            raise InvalidInput("tries_max", "must be at least 1")
        if min(self.timeouts.connect_s, self.timeouts.total_s, self.timeouts.bytes_max) <= 0:
            raise InvalidInput("timeouts", "every limit must be above 0")

    @property
    def origin(self) -> Origin:
        """The origin of the API."""
        return origin_of(self.base_url)

    @property
    def ports(self) -> frozenset[int]:
        """Every port that the API is declared to use."""
        redirects = self.redirects.hosts if self.redirects else ()
        named = [each.rpartition(":")[2] for each in (*self.hosts, *redirects) if ":" in each]
        return frozenset([self.origin.port, *(int(port) for port in named if port.isdigit())])

    def allows(self, origin: Origin) -> bool:
        """Whether a request with credentials may go to an origin."""
        return origin == self.origin or self._is_of(self.hosts, origin)

    def allows_redirect(self, origin: Origin) -> bool:
        """Whether a redirect may lead to an origin."""
        return self.redirects is not None and (
            self.allows(origin) or self._is_of(self.redirects.hosts, origin)
        )

    def _is_of(self, patterns: tuple[str, ...], origin: Origin) -> bool:
        # Never from https down to http.
        same_scheme = origin.scheme == self.origin.scheme
        return same_scheme and any(matches(each, origin) for each in patterns)


def matches(pattern: str, origin: Origin) -> bool:
    """Whether a host pattern matches an origin; without a port it means the scheme's default.

    A star matches a part of one name between two dots: else `a-*.example` would also match
    `a-1.evil.example`.
    """
    host, colon, port = pattern.lower().rpartition(":")
    if not colon:
        return origin.is_default_port and _names_match(pattern.lower(), origin.host)
    return str(origin.port) == port and _names_match(host, origin.host)


def _names_match(pattern: str, host: str) -> bool:
    patterns, names = pattern.split("."), host.split(".")
    return len(patterns) == len(names) and all(map(fnmatchcase, names, patterns))
