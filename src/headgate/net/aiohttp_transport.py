"""The transport that sends requests over the network, with aiohttp.

A name is resolved once for a connection. All its addresses are checked, and the connection goes to
a checked address, under the requested name (Host, SNI, certificate). Proxies and cookies are
ignored, the client follows redirects, and bodies are decompressed here, within the limit.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headgate.base.errors import AddressRefused, Transient
from headgate.net.addresses import AddressRules
from headgate.net.unpacking import ENCODINGS, Body
from headgate.net.urls import Origin, origin_of
from headgate.ports.transport import Headers, Request, Response, Timeouts

CONNECTIONS_MAX = 100
PIECE_BYTES = 64 * 1024
_INSTANT_S = 0.001

#: Returns the addresses of a name.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the machine's own resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class AiohttpTransport:
    """Calls providers over the network."""

    def __init__(
        self,
        rules: AddressRules | None = None,
        *,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Call only what `rules` allow; `tls` replaces the system's trusted authorities."""
        self._rules = rules or AddressRules()
        self._resolve = resolve
        self._tls = tls
        # By scheme: the rules depend on it, so a connection of one must not serve the other.
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> Response:
        """Send the request, and return the provider's response."""
        origin = origin_of(request.url)
        url = URL(request.url, encoded=True)
        if (url.raw_host or "").lower() != origin.host or url.port != origin.port:
            raise AddressRefused(f"{origin} must not be called: two parsers read it differently")
        # A name is checked when it is resolved; an address is never resolved, so check it here.
        if _is_address(origin.host):
            _check(self._rules, origin.scheme, origin.host, origin.port, name=origin.host)
        try:
            return await self._exchange(origin, url, request)
        except aiohttp.ConnectionTimeoutError:
            raise Transient(
                f"{origin} could not be reached in time, and nothing was sent"
            ) from None
        except TimeoutError:
            seconds = request.timeouts.total_s
            raise Transient(f"{origin} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            # Without the error's text: it quotes the request, which may hold secrets.
            raise Transient(f"{origin} could not be reached: {type(error).__name__}") from None

    async def _exchange(self, origin: Origin, url: URL, request: Request) -> Response:
        timeouts = request.timeouts
        headers = [*request.headers]
        if request.headers.get("accept-encoding") is None:
            headers.append(("accept-encoding", ENCODINGS))
        async with self._session(origin.scheme).request(
            request.method,
            url,
            headers=headers,
            data=request.body or None,
            allow_redirects=False,
            timeout=_client_timeout(timeouts, request.send_within_s),
        ) as answer:
            try:
                packed = answer.headers.get("content-encoding", "")
                body = Body(packed, bytes_max=timeouts.bytes_max)
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    body.add(piece)
            except BaseException:
                # The rest of the body was not read, so the connection cannot be used again.
                answer.close()
                raise
            return Response(
                status=answer.status,
                headers=Headers(answer.headers.items()),
                body=body.whole(),
                url=request.url,
            )

    async def close(self) -> None:
        """Close every connection."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def _session(self, scheme: str) -> aiohttp.ClientSession:
        session = self._sessions.get(scheme)
        if session is None:
            session = self._sessions[scheme] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=_CheckedResolver(scheme, self._rules, self._resolve),
                    # A name may point elsewhere later, so it is resolved and checked each time.
                    use_dns_cache=False,
                    ssl=self._tls or True,
                    limit=CONNECTIONS_MAX,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                middlewares=(_send_once,),
            )
        return session


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a request that aiohttp must not repeat: a repetition would have no permit.

    When a connection breaks before the answer's headers, aiohttp sends GET, PUT and others again,
    and has no option against it. It does so after two errors, which are therefore renamed here.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        # No connection was made, so nothing was sent, and aiohttp does not repeat it.
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
        raise BrokenConnection from None


class BrokenConnection(aiohttp.ClientConnectionError):
    """The connection broke before the answer's headers; the request may have arrived."""


class _CheckedResolver(AbstractResolver):
    """Resolves a name only if all its addresses may be called."""

    def __init__(self, scheme: str, rules: AddressRules, resolve: Resolve) -> None:
        self._scheme = scheme
        self._rules = rules
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host, port)
        if not addresses:
            raise OSError(f"{host} has no address")
        for address in addresses:
            _check(self._rules, self._scheme, address, port, name=host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: the resolver has no resources."""


def _check(rules: AddressRules, scheme: str, address: str, port: int, *, name: str) -> None:
    refusal = rules.refusal(scheme, address, port)
    if refusal is not None:
        raise AddressRefused(f"{scheme}://{name} must not be called: {refusal}")


def _client_timeout(timeouts: Timeouts, send_within_s: float) -> aiohttp.ClientTimeout:
    # A request is sent as soon as it has a connection, so it has to have one by then. Zero would
    # mean that there is no limit.
    in_time = send_within_s >= timeouts.total_s
    return _limited_to(timeouts, None if in_time else max(send_within_s, _INSTANT_S))


@lru_cache(maxsize=64)
def _limited_to(timeouts: Timeouts, connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=timeouts.total_s, connect=connect_s, sock_connect=timeouts.connect_s
    )


def _is_address(host: str) -> bool:
    # `origin_of` has refused every other spelling of an address.
    return ":" in host or host.replace(".", "").isdigit()
