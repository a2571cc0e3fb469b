"""The transport under the HTTP client: it sends a request to a provider and returns the response.

A transport sends one request and reads one response, within limits. It follows no redirect, stores
no cookie and retries nothing. It raises errors of our own tree: Transient if the provider could not
be reached or did not answer in time, Malformed if the response is too large or garbled,
AddressRefused if the address must not be called.

Requests and responses carry secrets, so their repr shows only what identifies them: never the value
of a header, a body or a query.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar, overload
from urllib.parse import urlsplit

import msgspec

from headgate.base.errors import Malformed

T = TypeVar("T")

CONNECT_S_MAX = 10.0
TOTAL_S_MAX = 30.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024


class Headers:
    """Headers in order, whose names ignore case. The repr shows only the names."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        """Take names and values; a name may occur more than once."""
        # A list is faster than a generator here.
        self._items = tuple([(name.lower(), value) for name, value in items])

    def get(self, name: str) -> str | None:
        """The first value of that name."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        """Every value of that name, in order."""
        lowered = name.lower()
        return [value for each, value in self._items if each == lowered]

    def without(self, *names: str) -> "Headers":
        """These headers without those of these names."""
        dropped = {name.lower() for name in names}
        return Headers(item for item in self._items if item[0] not in dropped)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"Headers({', '.join(name for name, _ in self._items)})"


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one request, in time and in size."""

    connect_s: float = CONNECT_S_MAX
    #: From the first byte sent to the last byte read.
    total_s: float = TOTAL_S_MAX
    #: The largest response body, decompressed.
    bytes_max: int = ANSWER_BYTES_MAX


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request."""

    method: str
    #: The address with its query.
    url: str
    headers: Headers = Headers()
    body: bytes = b""
    timeouts: Timeouts = Timeouts()
    #: If it cannot be sent within this time, it must not be sent: its grant may be no longer valid.
    send_within_s: float = float("inf")

    def __repr__(self) -> str:
        return f"Request({self.method} {without_query(self.url)})"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP response."""

    status: int
    headers: Headers = Headers()
    body: bytes = b""
    #: The address that answered, after redirects.
    url: str

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, kind: type[T]) -> T: ...

    def json(self, kind: Any = Any) -> Any:
        """The body as JSON, checked against `kind` if given; Malformed if it is not valid."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # The decoder's message names a place and a type, never a value.
            raise Malformed(f"{without_query(self.url)} gave no valid JSON: {error}") from None

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"Response({self.status} from {without_query(self.url)}, {len(self.body)} bytes)"


class Transport(Protocol):
    """Sends requests."""

    async def send(self, request: Request) -> Response:
        """Send the request and return the response, whatever its status."""
        ...

    async def close(self) -> None:
        """Close the network connections; safe to call twice."""
        ...


def without_query(url: str) -> str:
    """The address without its query, fragment, user name and password, for logs and errors."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
        host = parts.hostname or ""
        host_part = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{host_part}{port}{parts.path}"
    except ValueError:
        return "(an address that cannot be read)"
