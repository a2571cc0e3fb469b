"""The HTTP client behind `ctx.http`: the only way to spend a provider's budget.

Every attempt, retries and redirects included, first gets a permit from the gate, and holds it only
while the request runs. A transient failure is retried a few times at once; a refused token is
renewed once; every other failure is an error by consequence, and the job's policy decides.

Logs and errors contain no secrets: a URL without its query, and never a header or a body.
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
    Deferred,
    GrantRefused,
    InvalidInput,
    Malformed,
    RateLimited,
    ScopeMissing,
    SourceError,
    Transient,
)
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.connectors.http import multipart
from headgate.connectors.http.answers import (
    Throttled,
    Verdict,
    classify_status,
    throttled_s,
)
from headgate.connectors.http.api import Api
from headgate.connectors.http.rates import read_safely
from headgate.connectors.http.redirects import PERMANENT, RedirectMemory
from headgate.net.retry_after import retry_after_s
from headgate.net.urls import Origin, join_url, origin_of, resolve_location
from headgate.policy.retry import backoff
from headgate.ports.connections.auth import TokenPlacement
from headgate.ports.http import ClientOptions, NextPage, Paging, Permit, RequestOptions
from headgate.ports.transport import Headers, Request, Response, without_query

#: Redirects that one request may follow.
REDIRECTS_MAX = 3
#: Pages that one list may have; with more, the provider likely repeats itself.
PAGES_MAX = 10_000
#: The longest Retry-After that is waited out within a chunk.
RETRY_AFTER_S_PATIENCE = 20.0

_AGENT = "headgate"
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
#: These redirects keep the method and the body; the others become a GET.
_KEEP_METHOD = frozenset({307, 308})
_REDIRECT = frozenset({301, 302, 303, 307, 308})

Params = Mapping[str, object]

_log = get_logger(__name__)


class _PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its credentials."""

    method: str
    url: str
    headers: Headers
    body: bytes
    options: RequestOptions

    @property
    def repeatable(self) -> bool:
        return self.method in _IDEMPOTENT or self.options.get("repeatable", False)

    def __repr__(self) -> str:
        return f"_PreparedRequest({self.method} {without_query(self.url)})"


class HttpClient:
    """The HTTP client of one provider, for one chunk of one job."""

    def __init__(
        self, api: Api, options: ClientOptions, redirect_memory: RedirectMemory | None = None
    ) -> None:
        """Call `api` with these options; chunks may share a memory of its redirects."""
        self._api = api
        self._client_options = options
        self._redirect_memory = redirect_memory or redirect_memory_of(api)

    @property
    def external_id(self) -> str | None:
        """The provider's id of the account that the requests are for."""
        access = self._client_options.access
        return None if access is None else access.external_id

    async def get(
        self, path: str, params: Params | None = None, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a GET."""
        return await self.request("GET", path, params, **options)

    async def post(
        self, path: str, params: Params | None = None, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a POST."""
        return await self.request("POST", path, params, **options)

    async def pages(
        self,
        path: str,
        params: Params | None = None,
        *,
        paging: Paging,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Response]:
        """Yield a list's pages, one response each."""
        page: NextPage | None = paging.first()
        seen: set[str] = set()
        while page is not None:
            page_key = to_json([page.url, dict(page.params)])
            if page_key in seen or len(seen) >= PAGES_MAX:
                raise Malformed(f"the pages of {without_query(self._url(path))} go in circles")
            seen.add(page_key)
            if page.url is None:
                response = await self.get(path, {**(params or {}), **page.params}, **options)
            else:
                # The URL of the next page has its parameters already.
                url = resolve_location(self._url(path), page.url)
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
        """Send a request, and retry it if that may help."""
        prepared = self._prepare(method.upper(), path, params, options)
        failures, renewed, sent_before = 0, False, False
        while True:
            try:
                return await self._follow(prepared, retry=sent_before)
            except (GrantRefused, CredentialsUnreadable, ScopeMissing):
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
                if failures >= self._api.tries_max or not prepared.repeatable:
                    raise
                await self._wait_before_retry(prepared, failures, error)
            sent_before = True

    async def _wait_before_retry(
        self, prepared: _PreparedRequest, failures: int, error: Transient
    ) -> None:
        draw = self._client_options.rng.random()
        wait_s = backoff(failures - 1, self._api.pauses, draw=draw).total_seconds()
        if error.retry_after_s is not None:
            if error.retry_after_s > RETRY_AFTER_S_PATIENCE:
                raise error
            wait_s = max(wait_s, error.retry_after_s)
        _log.debug(
            LogEvent.REQUEST_AGAIN,
            request=repr(prepared),
            error=describe_error(error),
            wait_s=wait_s,
        )
        await self._client_options.clock.sleep(wait_s)

    async def _follow(self, prepared: _PreparedRequest, *, retry: bool) -> Response:
        """Send the request to where it was redirected before, or to the known address."""
        memory = self._redirect_memory
        if memory is None:
            return await self._follow_from(prepared, prepared.url, retry=retry)
        moved = msgspec.structs.replace(prepared, url=memory.find(prepared.url))
        try:
            return await self._follow_from(moved, prepared.url, retry=retry)
        except Deferred:
            raise
        except SourceError:
            # Perhaps the account is elsewhere by now, so the next attempt asks at the known
            # address.
            memory.forget(prepared.url)
            raise

    async def _follow_from(
        self, prepared: _PreparedRequest, known_url: str, *, retry: bool
    ) -> Response:
        """Send the request, and follow its redirects as far as they are allowed."""
        permanent = True
        for _ in range(1 + REDIRECTS_MAX):
            with_auth = self._may_carry_auth(prepared.url)
            response = await self._send(prepared, with_auth=with_auth, retry=retry)
            following = self._redirected_request(prepared, response)
            if following is None:
                return response
            permanent = permanent and response.status in PERMANENT
            if permanent and self._redirect_memory is not None:
                self._redirect_memory.learn(known_url, following.url)
            prepared, retry = following, False
        raise Malformed(
            f"{without_query(prepared.url)} is redirected more than {REDIRECTS_MAX} times"
        )

    def _may_carry_auth(self, url: str) -> bool:
        redirects = self._api.redirects
        return self._api.allows(origin_of(url)) or (redirects is not None and redirects.keep_auth)

    async def _send(self, prepared: _PreparedRequest, *, with_auth: bool, retry: bool) -> Response:
        """Make one attempt: get a permit, send the request, and check the response."""
        # Before the gate: renewing a token may take a while, and permits are scarce.
        placement = await self._token_placement() if with_auth else TokenPlacement()
        request = Request(
            method=prepared.method,
            url=join_url(prepared.url, prepared.url, placement.params),
            headers=Headers([*prepared.headers, *placement.headers.items()]),
            body=prepared.body,
            timeouts=self._api.timeouts,
        )
        options = prepared.options
        passing = self._client_options.gate.request(
            kind=options.get("kind", "read"),
            retry=retry,
            essential=options.get("essential", False),
        )
        began_s = self._client_options.clock.monotonic()
        async with passing as permit:
            # The transport gets the URL with its secrets; the response keeps it without them.
            within_s = permit.send_within_s
            answer = await self._client_options.transport.send(
                msgspec.structs.replace(request, send_within_s=within_s)
            )
            response = msgspec.structs.replace(answer, url=prepared.url)
            await self._report_counts(permit, response)
            error = await self._find_error(permit, response, options)
        _log.debug(
            LogEvent.REQUEST,
            request=repr(prepared),
            status=response.status,
            bytes=len(response.body),
            duration_ms=round((self._client_options.clock.monotonic() - began_s) * 1000, 1),
        )
        if error is not None:
            raise error
        return response

    async def _token_placement(self) -> TokenPlacement:
        return (
            TokenPlacement()
            if self._client_options.access is None
            else await self._client_options.access.place_token()
        )

    async def _report_counts(self, permit: Permit, response: Response) -> None:
        if self._api.counts is not None:
            counts = read_safely(self._api.counts, response.headers)
            if counts:
                await permit.observe_counts(counts)

    async def _find_error(
        self, permit: Permit, response: Response, options: RequestOptions
    ) -> SourceError | None:
        """Return what is wrong with the response; a throttled one closes the budget for all."""
        verdict = self._classify(response)
        if verdict is None and self._is_fine(response, options):
            return None
        if verdict is None:
            not_found = options.get("not_found", self._api.not_found)
            verdict = classify_status(response, not_found=not_found)
        now = self._client_options.clock.now()
        if isinstance(verdict, RateLimited):
            verdict = Throttled(max(0.0, verdict.after.total_seconds()))
        if isinstance(verdict, Throttled):
            wait_s = throttled_s(verdict, response.headers, now)
            return await permit.close_budget(wait_s, verdict.limit)
        if isinstance(verdict, Transient) and verdict.retry_after_s is None:
            verdict.retry_after_s = retry_after_s(response.headers, now)
        return verdict

    def _classify(self, response: Response) -> Verdict:
        if self._api.classify is None:
            return None
        try:
            return self._api.classify(response)
        except Malformed as error:
            # The classifier expected JSON and got a gateway's error page: the status says enough.
            return error if response.status < 300 else None

    def _is_fine(self, response: Response, options: RequestOptions) -> bool:
        follows = self._api.redirects is not None and response.status in _REDIRECT
        return follows or response.status in options.get("accept", ())

    def _redirected_request(
        self, prepared: _PreparedRequest, response: Response
    ) -> _PreparedRequest | None:
        """Return the request that a redirect leads to; None if the response is not a redirect."""
        redirects = self._api.redirects
        accepted = response.status in prepared.options.get("accept", ())
        if redirects is None or response.status not in _REDIRECT or accepted:
            return None
        here = without_query(prepared.url)
        location = response.headers.get("location")
        if not location:
            raise Malformed(f"{here} redirects, and does not say where to")
        url = resolve_location(prepared.url, location)
        there = _linked_origin(url)
        if not self._api.allows_redirect(there):
            raise Malformed(f"{here} redirects to {there}, which is not allowed")
        if response.status in _KEEP_METHOD or prepared.method in ("GET", "HEAD"):
            return msgspec.structs.replace(prepared, url=url)
        if response.status != 303:
            raise Malformed(f"{here} redirects a {prepared.method}, and does not say how")
        headers = prepared.headers.without("content-type")
        return msgspec.structs.replace(prepared, method="GET", url=url, headers=headers, body=b"")

    # Building a request.

    def _url(self, path: str, params: Params | None = None) -> str:
        url = join_url(self._api.base_url, path, params)
        origin = _linked_origin(url)
        if not self._api.allows(origin):
            # Most likely a link in a response: the credentials must not go there.
            raise Malformed(f"{origin} is not an address of this API ({self._api.origin})")
        return url

    def _prepare(
        self, method: str, path: str, params: Params | None, options: RequestOptions
    ) -> _PreparedRequest:
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
        return _PreparedRequest(method=method, url=url, headers=headers, body=body, options=options)


def redirect_memory_of(api: Api) -> RedirectMemory | None:
    """Return a new memory of the API's redirects; None if it wants none."""
    if api.redirects is None or api.redirects.remember is None:
        return None
    return RedirectMemory(api.base_url, api.redirects.remember)


def _linked_origin(url: str) -> Origin:
    """Return the origin of a URL that the provider sent."""
    try:
        return origin_of(url)
    except AddressRefused as error:
        # The provider's data is wrong, which may pass; so this must not end the job.
        raise Malformed(str(error)) from None


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _body(options: RequestOptions) -> tuple[bytes, str | None]:
    bodies = [name for name in ("json", "form", "multipart", "body") if name in options]
    if len(bodies) > 1:
        raise InvalidInput(bodies[1], f"cannot be used with {bodies[0]}; a request has one body")
    if "json" in options:
        return to_json(options["json"]).encode(), "application/json"
    if "form" in options:
        return urlencode(options["form"]).encode(), "application/x-www-form-urlencoded"
    if "multipart" in options:
        return multipart.encode(options["multipart"])
    return options.get("body", b""), None
