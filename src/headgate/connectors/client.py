"""The HTTP client behind `ctx.http`: the only way to spend a provider's budget.

Every attempt asks the gate first, retries and redirects included, and holds its place only while
it is on its way. A transient failure is tried again a few times on the spot; a refused token is
renewed once; everything else is told by consequence, for the job's policy to decide.

Nothing it says carries a secret: addresses are told without their query, and never a header or a
body.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Unpack
from urllib.parse import urlencode

import msgspec

from headgate.base.encoding import to_json
from headgate.base.errors import (
    AddressRefused,
    AuthExpired,
    CredentialsUnreadable,
    GrantRefused,
    InvalidInput,
    Malformed,
    RateLimited,
    SourceError,
    Transient,
)
from headgate.base.log import get_logger
from headgate.base.redact import describe_error
from headgate.connectors import multipart
from headgate.connectors.answers import Throttled, Verdict, by_status, retry_after_s
from headgate.connectors.api import Api
from headgate.connectors.rates import read_safely
from headgate.connectors.urls import Origin, joined, origin_of, redirected
from headgate.policy.retry import backoff
from headgate.ports.auth import TokenPlacement
from headgate.ports.connector import ClientOptions, NextPage, Paging, Permit, RequestOptions
from headgate.ports.transport import Headers, Request, Response, without_query

#: Hops that one request may make.
REDIRECTS_MAX = 3
#: Pages that one list may have; a provider that has more goes in circles.
PAGES_MAX = 10_000
#: A wait that a busy provider asks for is waited out on the spot up to this, within a chunk.
RETRY_AFTER_S_PATIENCE = 20.0

_AGENT = "headgate"
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
#: These keep the method and the body; the others turn into a GET.
_KEEP_METHOD = frozenset({307, 308})
_REDIRECT = frozenset({301, 302, 303, 307, 308})

Params = Mapping[str, object]

_log = get_logger(__name__)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request before it has its credentials."""

    method: str
    url: str
    headers: Headers
    body: bytes
    options: RequestOptions

    @property
    def repeatable(self) -> bool:
        return self.method in _IDEMPOTENT or self.options.get("repeatable", False)

    def __repr__(self) -> str:
        return f"_Asked({self.method} {without_query(self.url)})"


class HttpClient:
    """One provider's API for one chunk of one job."""

    def __init__(self, api: Api, options: ClientOptions) -> None:
        """Call `api` on that way."""
        self._api = api
        self._client_options = options

    async def get(
        self, path: str, params: Params | None = None, **options: Unpack[RequestOptions]
    ) -> Response:
        """Read something."""
        return await self.request("GET", path, params, **options)

    async def post(
        self, path: str, params: Params | None = None, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send something."""
        return await self.request("POST", path, params, **options)

    async def pages(
        self,
        path: str,
        params: Params | None = None,
        *,
        paging: Paging,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Response]:
        """Read a list page by page."""
        page: NextPage | None = paging.first()
        seen: set[str] = set()
        while page is not None:
            asked = to_json([page.url, dict(page.params)])
            if asked in seen or len(seen) >= PAGES_MAX:
                raise Malformed(f"the pages of {without_query(self._url(path))} go in circles")
            seen.add(asked)
            if page.url is None:
                response = await self.get(path, {**(params or {}), **page.params}, **options)
            else:
                # The address has its parameters already.
                url = redirected(self._url(path), page.url)
                response = await self.get(url, page.params, **options)
            yield response
            page = paging.after(response, page)

    async def request(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a request, again where that may help."""
        asked = self._asked(method.upper(), path, params, options)
        failures, renewed, sent_before = 0, False, False
        while True:
            try:
                return await self._follow(asked, retry=sent_before)
            except (GrantRefused, CredentialsUnreadable):
                raise
            except AuthExpired as error:
                if self._client_options.access is None:
                    raise
                if renewed:
                    await self._client_options.access.reject(str(error))
                    raise
                await self._client_options.access.renew()
                renewed = True
            except Transient as error:
                failures += 1
                if failures >= self._api.tries_max or not asked.repeatable:
                    raise
                await self._rest(asked, failures, error)
            sent_before = True

    async def _rest(self, asked: _Asked, failures: int, error: Transient) -> None:
        draw = self._client_options.rng.random()
        wait_s = backoff(failures - 1, self._api.pauses, draw=draw).total_seconds()
        if error.retry_after_s is not None:
            if error.retry_after_s > RETRY_AFTER_S_PATIENCE:
                raise error
            wait_s = max(wait_s, error.retry_after_s)
        _log.debug("request_again", request=repr(asked), error=describe_error(error), wait_s=wait_s)
        await self._client_options.clock.sleep(wait_s)

    async def _follow(self, asked: _Asked, *, retry: bool) -> Response:
        """Send it, and go where it is redirected to, as far as that is allowed."""
        with_auth = True
        for _ in range(1 + REDIRECTS_MAX):
            response = await self._send(asked, with_auth=with_auth, retry=retry)
            onward = self._onward(asked, response)
            if onward is None:
                return response
            redirects = self._api.redirects
            assert redirects is not None
            with_auth = redirects.keep_auth or self._api.allows(origin_of(onward.url))
            asked, retry = onward, False
        raise Malformed(f"{without_query(asked.url)} is redirected more than {REDIRECTS_MAX} times")

    async def _send(self, asked: _Asked, *, with_auth: bool, retry: bool) -> Response:
        """One attempt: it passes the gate, is counted, and its answer is judged."""
        # Before the gate: renewing a token may take a while, and a place there is scarce.
        placed = await self._placed() if with_auth else TokenPlacement()
        request = Request(
            method=asked.method,
            url=joined(asked.url, asked.url, placed.params),
            headers=Headers([*asked.headers, *placed.headers.items()]),
            body=asked.body,
            timeouts=self._api.timeouts,
        )
        options = asked.options
        passing = self._client_options.gate.request(
            kind=options.get("kind", "read"),
            retry=retry,
            essential=options.get("essential", False),
        )
        began_s = self._client_options.clock.monotonic()
        async with passing as passage:
            # The transport is given the query with its secrets; the answer is told without them.
            answer = await self._client_options.transport.send(request)
            response = msgspec.structs.replace(answer, url=asked.url)
            await self._tell_counts(passage, response)
            error = await self._judged(passage, response, options)
        _log.debug(
            "request",
            request=repr(asked),
            status=response.status,
            bytes=len(response.body),
            duration_ms=round((self._client_options.clock.monotonic() - began_s) * 1000, 1),
        )
        if error is not None:
            raise error
        return response

    async def _placed(self) -> TokenPlacement:
        return (
            TokenPlacement()
            if self._client_options.access is None
            else await self._client_options.access.place_token()
        )

    async def _tell_counts(self, passage: Permit, response: Response) -> None:
        if self._api.counts is not None:
            counts = read_safely(self._api.counts, response.headers)
            if counts:
                await passage.observe_counts(counts)

    async def _judged(
        self, passage: Permit, response: Response, options: RequestOptions
    ) -> SourceError | None:
        """What is wrong with the answer; a refusal by the limit closes the budget for everybody."""
        verdict = self._classified(response)
        if verdict is None and self._is_fine(response, options):
            return None
        if verdict is None:
            not_found = options.get("not_found", self._api.not_found)
            verdict = by_status(response, not_found=not_found)
        wait_s = retry_after_s(response.headers, self._client_options.clock.now())
        if isinstance(verdict, RateLimited):
            verdict = Throttled(max(0.0, verdict.after.total_seconds()))
        if isinstance(verdict, Throttled):
            told_s = verdict.retry_after_s
            return await passage.close_budget(wait_s if told_s is None else told_s)
        if isinstance(verdict, Transient) and verdict.retry_after_s is None:
            verdict.retry_after_s = wait_s
        return verdict

    def _classified(self, response: Response) -> Verdict:
        if self._api.classify is None:
            return None
        try:
            return self._api.classify(response)
        except Malformed as error:
            # It looked for JSON in a gateway's error page: the status says enough of that.
            return error if response.status < 300 else None

    def _is_fine(self, response: Response, options: RequestOptions) -> bool:
        follows = self._api.redirects is not None and response.status in _REDIRECT
        return follows or response.status in options.get("accept", ())

    def _onward(self, asked: _Asked, response: Response) -> _Asked | None:
        """The request that a redirect asks for; None where the answer is none."""
        redirects = self._api.redirects
        accepted = response.status in asked.options.get("accept", ())
        if redirects is None or response.status not in _REDIRECT or accepted:
            return None
        here = without_query(asked.url)
        location = response.headers.get("location")
        if not location:
            raise Malformed(f"{here} redirects, and does not say where to")
        url = redirected(asked.url, location)
        there = _led_to(url)
        if not self._api.allows_redirect(there):
            raise Malformed(f"{here} redirects to {there}, which is not allowed")
        if response.status in _KEEP_METHOD or asked.method in ("GET", "HEAD"):
            return msgspec.structs.replace(asked, url=url)
        if response.status != 303:
            raise Malformed(f"{here} redirects a {asked.method}, and does not say how")
        headers = asked.headers.without("content-type")
        return msgspec.structs.replace(asked, method="GET", url=url, headers=headers, body=b"")

    # From what a connector says to a request.

    def _url(self, path: str, params: Params | None = None) -> str:
        url = joined(self._api.base_url, path, params)
        origin = _led_to(url)
        if not self._api.allows(origin):
            # A link in an answer, most likely: the credentials must not go there.
            raise Malformed(f"{origin} is not an address of this API ({self._api.origin})")
        return url

    def _asked(
        self, method: str, path: str, params: Params | None, options: RequestOptions
    ) -> _Asked:
        body, kind = _body(options)
        named = {
            "user-agent": _AGENT,
            "accept": "application/json",
            **({"content-type": kind} if kind else {}),
            **_lower(self._api.headers),
            **_lower(options.get("headers", {})),
        }
        for name, value in named.items():
            if not (name.isascii() and name.isprintable() and value.isprintable()):
                raise InvalidInput("headers", f"{name[:40]!r} is not on one line")
        url = self._url(path, params)
        headers = Headers(named.items())
        return _Asked(method=method, url=url, headers=headers, body=body, options=options)


def _led_to(url: str) -> Origin:
    """Whom an address calls that the provider has given."""
    try:
        return origin_of(url)
    except AddressRefused as error:
        # What may be wrong today is not for ever: the provider's data, not ours.
        raise Malformed(str(error)) from None


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _body(options: RequestOptions) -> tuple[bytes, str | None]:
    given = [name for name in ("json", "form", "multipart", "body") if name in options]
    if len(given) > 1:
        raise InvalidInput(given[1], f"is given together with {given[0]}; a request has one body")
    if "json" in options:
        return to_json(options["json"]).encode(), "application/json"
    if "form" in options:
        return urlencode(options["form"]).encode(), "application/x-www-form-urlencoded"
    if "multipart" in options:
        return multipart.encode(options["multipart"])
    return options.get("body", b""), None
