"""A provider's API over HTTP, as connectors use it, and the gate that every request passes."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Protocol, TypedDict, Unpack

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import Json
from headgate.base.errors import RateLimited, SourceError
from headgate.ports.connections.auth import TokenPlacement
from headgate.ports.transport import Response, Transport


class Permit(Protocol):
    """The permission to send one request, which is already counted."""

    #: What is left of the provider's tightest window, if known.
    remaining: int | None

    @property
    def send_within_s(self) -> float:
        """The seconds in which the request must be sent from now on; 0 or less: too late.

        Later, the window in which it counts may be over. Whoever sends requests without `ctx.http`
        must not send them after that.
        """
        ...

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        """Report the provider's own counts from its answer, by the limit's name."""
        ...

    async def close_budget(
        self, retry_after_s: float | None = None, limit: str | None = None
    ) -> RateLimited:
        """Close the budget for everybody after a 429; raise the error that this returns.

        `limit` is the name of the limit that is spent, if the provider says it.
        """
        ...


class Gate(Protocol):
    """Asks the provider's budget before every request, retries included."""

    @property
    def remaining(self) -> int | None:
        """What the last grant left of the budget; None before the first, and without a budget."""
        ...

    def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AbstractAsyncContextManager[Permit]:
        """Wait until the budget grants a request, or raise BudgetSpent if that takes too long.

        An `essential` request of live work may use a small local share of the budget while the
        limiter is unreachable.
        """
        ...


class RequestOptions(TypedDict, total=False):
    """The options of a request besides its path and query; all are optional."""

    #: Headers besides those of the provider and of the credentials.
    headers: Mapping[str, str]
    #: The body, as JSON. A request has one of the four forms of a body.
    json: Json
    #: The body, as a form.
    form: Mapping[str, str]
    #: The body, as a form with files.
    multipart: Mapping[str, "str | File"]
    #: The body, as it is.
    body: bytes
    #: The kind of request, which selects the limits that it counts against; by default `read`.
    kind: str
    #: Live work may send it on a small local share while the limiter is unreachable.
    essential: bool
    #: It may be sent again if its outcome is unknown. GET, HEAD, PUT and DELETE always may.
    repeatable: bool
    #: Statuses that do not count as an error.
    accept: Collection[int]
    #: The error for a 404: NoData or Terminal.
    not_found: type[SourceError]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a form."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"

    def __repr__(self) -> str:
        return f"File({self.name!r}, {len(self.content)} bytes)"


class NextPage(msgspec.Struct, frozen=True, kw_only=True):
    """The request for the next page: more parameters, or another address."""

    params: Mapping[str, object] = {}
    url: str | None = None


class Paging(Protocol):
    """How a provider pages a long list."""

    def first(self) -> NextPage:
        """The first page."""
        ...

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """The page after this one; None if it was the last."""
        ...


class Http(Protocol):
    """The provider's API: `ctx.http` of a source, `batch.http` of a destination.

    Every attempt asks the budget first; errors are those of `headgate.errors`.
    """

    @property
    def external_id(self) -> str | None:
        """The provider's id of the account that the requests are for; None if it has none."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a request, with retries where they may help, and return the response or raise."""
        ...

    async def get(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a GET request."""
        ...

    async def post(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a POST request."""
        ...

    def pages(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        *,
        paging: Paging,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Response]:
        """Read a list page by page."""
        ...


class TokenProvider(Protocol):
    """The credentials of one connection, as the HTTP client uses them."""

    @property
    def external_id(self) -> str | None:
        """The provider's id of the connected account, if it is known."""
        ...

    async def place_token(self) -> TokenPlacement:
        """The headers and parameters of a valid access token, renewed if it expires soon."""
        ...

    async def renew(self) -> None:
        """Get a new token, because the provider refused this one; or raise AuthExpired."""
        ...

    async def reject(self, message: str) -> None:
        """Record that the provider refused the new token too: the user must connect again."""
        ...


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client of a provider's API needs for one chunk."""

    gate: Gate
    transport: Transport
    #: None: the provider needs no credentials.
    access: TokenProvider | None
    clock: Clock
    rng: Random
