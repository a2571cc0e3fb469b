"""Requests over the network, by aiohttp.

A name is resolved once for a connection; every address it has is checked, and the connection goes
to an address that was checked, under the name that was asked for (Host, SNI, certificate). Proxies
and cookies are ignored, redirects are left to the client, bodies are unpacked here, within the
limit.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headgate.base.errors import AddressRefused, Transient
from headgate.connectors.addresses import AddressRules
from headgate.connectors.unpacking import ENCODINGS, Body
from headgate.connectors.urls import Origin, origin_of
from headgate.ports.transport import Headers, Request, Response

CONNECTIONS_MAX = 100
PIECE_BYTES = 64 * 1024

#: The addresses that a name has.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def by_system(host: str, port: int) -> Sequence[str]:
    """Ask the machine's own resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class AiohttpTransport:
    """Calls providers over the network."""

    def __init__(
        self,
        rules: AddressRules | None = None,
        *,
        resolve: Resolve = by_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Call what `rules` allow; `tls` trusts other authorities than the system's."""
        self._rules = rules or AddressRules()
        self._resolve = resolve
        self._tls = tls
        # By scheme, because what an address may be depends on it, and a connection that was made
        # for one must not serve the other.
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> Response:
        """The provider's answer."""
        origin = origin_of(request.url)
        url = URL(request.url, encoded=True)
        if (url.raw_host or "").lower() != origin.host or url.port != origin.port:
            raise AddressRefused(f"{origin} must not be called: it can be read in two ways")
        # A name is judged when it is resolved; what is an address already is not resolved.
        if _is_address(origin.host):
            _check(self._rules, origin.scheme, origin.host, origin.port, name=origin.host)
        try:
            return await self._exchange(origin, url, request)
        except TimeoutError:
            seconds = request.timeouts.total_s
            raise Transient(f"{origin} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            # Not the error itself: it quotes the request.
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
            timeout=aiohttp.ClientTimeout(total=timeouts.total_s, sock_connect=timeouts.connect_s),
        ) as answer:
            try:
                packed = answer.headers.get("content-encoding", "")
                body = Body(packed, bytes_max=timeouts.bytes_max)
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    body.add(piece)
            except BaseException:
                # The rest is not read, so the connection cannot be used again.
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
                    # What was checked once may point elsewhere later; so it is checked each time.
                    use_dns_cache=False,
                    ssl=self._tls or True,
                    limit=CONNECTIONS_MAX,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return session


class _CheckedResolver(AbstractResolver):
    """Gives addresses only where every one of them may be called."""

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
        """Nothing is held."""


def _check(rules: AddressRules, scheme: str, address: str, port: int, *, name: str) -> None:
    refusal = rules.refusal(scheme, address, port)
    if refusal is not None:
        raise AddressRefused(f"{scheme}://{name} must not be called: {refusal}")


def _is_address(host: str) -> bool:
    # `origin_of` has refused every other spelling of a number.
    return ":" in host or host.replace(".", "").isdigit()
