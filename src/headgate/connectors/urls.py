"""Reading an address of the web strictly: what two parsers could read differently is refused."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from headgate.base.errors import AddressRefused
from headgate.ports.transport import without_query

URL_LENGTH_MAX = 8_000
_PORTS = {"http": 80, "https": 443}
#: What stands in an address once it is encoded; no blank, control character, backslash, or letter
#: beyond ASCII, which could turn into another one on the way.
_PLAIN = re.compile(r"[!-~]+")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9.])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

#: What may be given as the query of a request. None leaves a parameter out; a list repeats it.
Params = Mapping[str, object]


class Origin(msgspec.Struct, frozen=True):
    """Who is called: scheme, host and port."""

    scheme: str
    host: str
    port: int

    @property
    def is_default_port(self) -> bool:
        """Whether the port goes without saying."""
        return self.port == _PORTS[self.scheme]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.is_default_port else f":{self.port}")


def origin_of(url: str) -> Origin:
    """Whom an absolute address calls; AddressRefused where that is not beyond doubt."""
    if len(url) > URL_LENGTH_MAX:
        raise AddressRefused(f"an address of {len(url):,} characters; at most {URL_LENGTH_MAX:,}")
    if not _PLAIN.fullmatch(url) or "\\" in url:
        raise _refused(url, "it holds characters that must be encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused(url, "it cannot be read") from None
    if parts.scheme not in _PORTS:
        raise _refused(url, "its scheme is neither https nor http")
    if "@" in parts.netloc:
        raise _refused(url, "it carries a name or a password")
    if port == 0:
        raise _refused(url, "port 0 is none")
    host = (parts.hostname or "").lower()
    if (problem := _host_problem(host)) is not None:
        raise _refused(url, problem)
    return Origin(parts.scheme, host, port or _PORTS[parts.scheme])


def joined(base_url: str, path: str, params: Params | None = None) -> str:
    """The address of a path under the base, or an absolute one as it is, with a query."""
    url = path if _ABSOLUTE.match(path) else f"{base_url.rstrip('/')}/{path.lstrip('/')}"
    query = urlencode(_pairs(params or {}))
    if not query:
        return url
    url, hash_sign, fragment = url.partition("#")
    return f"{url}{'&' if '?' in url else '?'}{query}{hash_sign}{fragment}"


def redirected(url: str, location: str) -> str:
    """Where a Location header leads to from an address."""
    return urljoin(url, location)


def _pairs(params: Params) -> Sequence[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, _word(each)) for each in values if each is not None]
    return pairs


def _word(value: object) -> str:
    # As JSON says it: providers take `true`, and Python's own word would be `True`.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host_problem(host: str) -> str | None:
    if not host:
        return "it names no host"
    if ":" in host:
        return None if _is_ipv6(host) else "its host is no address"
    if not _HOST.fullmatch(host) or ".." in host:
        return "its host is not a plain name; write others in their encoded form (xn--…)"
    # What ends in a number is taken for an IPv4 address, in one of many spellings: 127.1, 0x7f.1,
    # 2130706433, 0177.0.0.1. One of them is enough.
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


def _refused(url: str, problem: str) -> AddressRefused:
    # The address may be anything: only what is printable of it is told.
    return AddressRefused(f"{ascii(without_query(url))[:200]} must not be called: {problem}")
