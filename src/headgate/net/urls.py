"""Parses URLs strictly: one that two parsers could read differently is refused."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from headgate.base.errors import AddressRefused
from headgate.ports.transport import without_query

URL_LENGTH_MAX = 8_000
_PORTS = {"http": 80, "https": 443}
#: The characters of an encoded URL: no blanks, control characters, backslashes or letters beyond
#: ASCII, which another parser could turn into something else.
_PLAIN = re.compile(r"[!-~]+")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9.])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

#: The query of a request. None leaves a parameter out; a list repeats it.
Params = Mapping[str, object]


class Origin(msgspec.Struct, frozen=True):
    """The scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int

    @property
    def is_default_port(self) -> bool:
        """Whether the port is the default of the scheme."""
        return self.port == _PORTS[self.scheme]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.is_default_port else f":{self.port}")


# Cached, because a client calls few addresses many times, and to read one takes a while.
@lru_cache(maxsize=1024)
def origin_of(url: str) -> Origin:
    """Return the origin of an absolute URL; raises AddressRefused if it is ambiguous."""
    if len(url) > URL_LENGTH_MAX:
        raise AddressRefused(f"an address of {len(url):,} characters; at most {URL_LENGTH_MAX:,}")
    if not _PLAIN.fullmatch(url) or "\\" in url:
        raise _refusal(url, "it contains characters that must be encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refusal(url, "it cannot be read") from None
    if parts.scheme not in _PORTS:
        raise _refusal(url, "its scheme is neither https nor http")
    if "@" in parts.netloc:
        raise _refusal(url, "it contains a user name or a password")
    if port == 0:
        raise _refusal(url, "0 is not a port")
    host = (parts.hostname or "").lower()
    if (problem := _host_problem(host)) is not None:
        raise _refusal(url, problem)
    return Origin(parts.scheme, host, port or _PORTS[parts.scheme])


def join_url(base_url: str, path: str, params: Params | None = None) -> str:
    """Return the URL of a path under the base, or an absolute one unchanged, with a query."""
    url = path if _ABSOLUTE.match(path) else f"{base_url.rstrip('/')}/{path.lstrip('/')}"
    query = urlencode(_pairs(params or {}))
    if not query:
        return url
    url, hash_sign, fragment = url.partition("#")
    return f"{url}{'&' if '?' in url else '?'}{query}{hash_sign}{fragment}"


def resolve_location(url: str, location: str) -> str:
    """Return the URL that a Location header leads to."""
    return urljoin(url, location)


def _pairs(params: Params) -> Sequence[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, _word(each)) for each in values if each is not None]
    return pairs


def _word(value: object) -> str:
    # As in JSON: providers expect `true`, and Python's `str` would give `True`.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host_problem(host: str) -> str | None:
    if not host:
        return "it names no host"
    if ":" in host:
        return None if _is_ipv6(host) else "its host is not an address"
    if not _HOST.fullmatch(host) or ".." in host:
        return "its host is not a plain name; write others in their encoded form (xn--…)"
    # A host that ends in a number is an IPv4 address, in one of many spellings: 127.1, 0x7f.1,
    # 2130706433, 0177.0.0.1. Only the usual spelling is accepted.
    if _NUMBER.fullmatch(host.rstrip(".").rsplit(".", 1)[-1]):
        return None if _is_ipv4(host) else "its host is a number in an unusual spelling"
    return None


def _is_ipv4(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _is_ipv6(host: str) -> bool:
    try:
        return IPv6Address(host).scope_id is None
    except AddressValueError:
        return False


def _refusal(url: str, problem: str) -> AddressRefused:
    # The URL may contain anything, so only its printable part is quoted.
    return AddressRefused(f"{ascii(without_query(url))[:200]} must not be called: {problem}")
