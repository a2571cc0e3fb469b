"""Requests over real sockets on loopback: limits, time-outs, addresses that change their mind."""

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import AddressRefused, Malformed, Transient
from headgate.connectors.http.api import Api, Redirects
from headgate.connectors.http.client import HttpClient
from headgate.net.addresses import AddressRules, parse_networks
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.ports.http import ClientOptions
from headgate.ports.transport import Headers, Request, Timeouts
from tests.certificates import certificate
from tests.unit.connectors.fakes import START, FakeAccess, NotingGate

LOOPBACK = AddressRules(private=parse_networks("127.0.0.0/8, ::1/128"))
PATIENCE = Timeouts(connect_s=5.0, total_s=10.0, bytes_max=100_000)

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server of raw bytes, which notes the head of every request."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.heads: list[str] = []
        self.port = 0
        self.left = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                if length := re.search(rb"content-length: (\d+)", head.lower()):
                    await reader.readexactly(int(length[1]))
                await self._serve(head, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server(serve)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def opened(rules: AddressRules = LOOPBACK, **options: Any) -> AsyncIterator[AiohttpTransport]:
    transport = AiohttpTransport(rules, **options)
    try:
        yield transport
    finally:
        await transport.close()
        await transport.close()


def request(server: Server | None, path: str = "/", **fields: Any) -> Request:
    port = 9 if server is None else server.port
    given = {"method": "GET", "url": f"http://127.0.0.1:{port}{path}", "timeouts": PATIENCE}
    return Request(**{**given, **fields})


def answering(body: bytes, *headers: str, status: str = "200 OK") -> Serve:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    return serve


async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    while True:
        writer.write(b"x" * 10_000)
        await writer.drain()


def resolve_to(*addresses: str) -> Any:
    """A resolver that knows nothing else."""

    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


# ---- the answer --------------------------------------------------------------------------------


async def test_an_answer_comes_back_with_everything_it_has() -> None:
    async with serving(answering(b"[1]", "X-Two: a", "X-Two: b", status="201 Made")) as server:
        async with opened() as transport:
            headers = Headers([("Authorization", "Bearer x"), ("X-Extra", "é".encode().hex())])
            response = await transport.send(request(server, "/a%2Fb?c=%26", headers=headers))

        assert (response.status, response.json()) == (201, [1])
        assert response.headers.all("x-two") == ["a", "b"]
        head = server.heads[0]
        assert head.startswith("GET /a%2Fb?c=%26 HTTP/1.1\r\n")
        assert "Authorization: Bearer x" in head or "authorization: Bearer x" in head
        assert "Cookie" not in head


async def test_a_packed_answer_is_unpacked_and_cookies_are_not_kept() -> None:
    gzipped = gzip.compress(b'{"a": 1}')
    packed = answering(gzipped, "Content-Encoding: gzip", "Set-Cookie: id=7; Path=/")
    async with serving(packed) as server, opened() as transport:
        for _ in range(2):
            assert (await transport.send(request(server))).json() == {"a": 1}
        assert all("cookie" not in head.lower() for head in server.heads)


@pytest.mark.security(8)
async def test_a_redirect_is_given_back_and_not_followed() -> None:
    moved = answering(b"", "Location: http://127.0.0.1:1/", status="308 Moved")
    async with serving(moved) as server, opened() as transport:
        response = await transport.send(request(server))
    assert response.status == 308
    assert len(server.heads) == 1


@pytest.mark.security(8)
async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(answering(b"7")) as server, opened() as transport:
        assert (await transport.send(request(server))).json() == 7


# ---- limits ------------------------------------------------------------------------------------


@pytest.mark.security(9)
async def test_an_answer_without_end_is_cut_at_the_limit_and_the_connection_closed() -> None:
    async with serving(endless) as server, opened() as transport:
        with pytest.raises(Malformed, match="larger than 100,000 bytes"):
            await transport.send(request(server))
        await asyncio.wait_for(server.left.wait(), 30)


@pytest.mark.security(9)
async def test_a_packed_bomb_is_cut_at_the_limit() -> None:
    bomb = answering(gzip.compress(bytes(5_000_000)), "Content-Encoding: gzip")
    async with serving(bomb) as server, opened() as transport:
        with pytest.raises(Malformed, match="larger than 100,000 bytes"):
            await transport.send(request(server))


async def drip(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
    await writer.drain()
    await asyncio.Event().wait()


@pytest.mark.parametrize("serve", [drip, silent])
@pytest.mark.fault(31)
@pytest.mark.security(9)
async def test_a_body_that_drips_is_given_up(serve: Serve) -> None:
    async with serving(serve) as server, opened() as transport:
        with pytest.raises(Transient, match=r"did not answer within 0\.05 s"):
            await transport.send(request(server, timeouts=Timeouts(total_s=0.05)))


@pytest.mark.parametrize(
    "said",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"HTTP/1.1 "],
)
async def test_a_connection_that_breaks_is_transient_and_tells_no_secret(said: bytes) -> None:
    async def cut(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    async with serving(cut) as server, opened() as transport:
        headers = Headers([("Authorization", "Bearer s3cret")])
        with pytest.raises(Transient) as raised:
            await transport.send(request(server, "/?t=s3cret", headers=headers))
    assert "s3cret" not in repr(raised.value)
    assert raised.value.__cause__ is None


async def test_a_port_where_nobody_listens_and_a_name_without_an_address_are_transient() -> None:
    async with serving(silent) as server:
        gone = request(server)
    nameless = Request(method="GET", url="https://api.example/")
    for asked, options in ((gone, {}), (nameless, {"resolve": resolve_to()})):
        async with opened(**options) as transport:
            with pytest.raises(Transient, match="could not be reached"):
                await transport.send(asked)


# ---- addresses ---------------------------------------------------------------------------------


LOOPBACK_NAMES = "127.0.0.1 [::1] [::ffff:127.0.0.1] localhost 0 127.1 0x7f000001 2130706433"


@pytest.mark.parametrize("name", [*LOOPBACK_NAMES.split(), "0177.0.0.1", "①②⑦.⓪.⓪.①"])
async def test_loopback_is_not_called_by_any_name_unless_allowed(name: str) -> None:
    async with serving(answering(b"")) as server, opened(AddressRules()) as transport:
        for scheme in ("http", "https"):
            with pytest.raises(AddressRefused):
                url = f"{scheme}://{name}:{server.port}/"
                await transport.send(Request(method="GET", url=url))
    assert server.heads == []


@pytest.mark.parametrize(
    "addresses",
    [
        *("169.254.169.254", "10.0.0.1", "::ffff:10.0.0.1", "fd00:ec2::254", "nonsense"),
        *("127.0.0.1 10.0.0.1", "8.8.8.8 127.0.0.1"),
    ],
)
async def test_a_name_with_any_address_that_is_not_allowed_is_not_called(addresses: str) -> None:
    resolve = resolve_to(*addresses.split())
    async with serving(answering(b"")) as server, opened(resolve=resolve) as transport:
        with pytest.raises(AddressRefused):
            url = f"http://api.example:{server.port}/?t=s3cret"
            await transport.send(Request(method="GET", url=url))
    assert server.heads == []


@pytest.mark.security(6, 10)
async def test_a_name_that_changes_its_address_is_judged_by_the_one_that_is_called() -> None:
    # Given a name that is harmless when it is first looked up, and then points inwards
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    async def flipping(host: str, port: int) -> list[str]:
        return answers.pop(0)

    close = answering(b"1", "Connection: close")
    async with serving(close) as server, opened(resolve=flipping) as transport:
        there = Request(method="GET", url=f"http://api.example:{server.port}/")
        # When it is called, the address that was checked is the one that is connected to
        assert (await transport.send(there)).json() == 1
        assert server.heads[0].lower().count(f"host: api.example:{server.port}") == 1
        # Then a second connection looks it up again, and is refused
        with pytest.raises(AddressRefused, match="link-local"):
            await transport.send(there)
        assert answers == []


@pytest.mark.parametrize("send_within_s", [0.05, 0.0, -3.0])
async def test_a_request_that_cannot_be_sent_in_time_is_not_sent(send_within_s: float) -> None:
    # Given a name that takes for ever to be resolved
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with opened(resolve=never) as transport:
        # Then it is given up as soon as its grant is no longer valid, long before other limits
        with pytest.raises(Transient, match="nothing was sent"):
            await transport.send(
                Request(method="GET", url="https://api.example/", send_within_s=send_within_s)
            )


async def test_a_request_that_is_sent_in_time_may_be_answered_later() -> None:
    # Given a server that answers only once the grant's time is over
    sent = asyncio.Event()

    async def slow(head: bytes, writer: asyncio.StreamWriter) -> None:
        sent.set()
        await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=0.3)
        await answering(b"[1]")(head, writer)

    async with serving(slow) as server, opened() as transport:
        response = await transport.send(request(server, send_within_s=0.2))

    assert (sent.is_set(), response.json()) == (True, [1])


@pytest.mark.security(8)
async def test_plain_http_and_other_ports_do_not_go_over_the_public_network() -> None:
    resolve = resolve_to("8.8.8.8")
    async with opened(AddressRules(), resolve=resolve) as transport:
        with pytest.raises(AddressRefused, match="only https"):
            await transport.send(Request(method="GET", url="http://api.example/"))
        with pytest.raises(AddressRefused, match="port 22"):
            await transport.send(Request(method="GET", url="https://api.example:22/"))
        with pytest.raises(AddressRefused, match="port 8443"):
            await transport.send(Request(method="GET", url="https://8.8.8.8:8443/"))


# ---- with the client in front ------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_redirect_to_a_peer_is_followed_where_it_is_allowed(allowed: bool) -> None:
    # Given a provider that sends us on to its peer, which only the resolver knows
    resolve = resolve_to("127.0.0.1")
    async with serving(answering(b'{"result": 7}')) as peer:
        there = f"http://peer-7.example:{peer.port}/q"
        moved = answering(b"", f"Location: {there}", status="308 Permanent Redirect")
        async with serving(moved) as home, opened(resolve=resolve) as transport:
            hosts = (f"peer-*.example:{peer.port}",) if allowed else ("peer-*.example:1",)
            api = Api(
                base_url=f"http://home.example:{home.port}",
                redirects=Redirects(hosts=hosts, keep_auth=True),
            )
            options = ClientOptions(
                gate=NotingGate(),
                transport=transport,
                access=FakeAccess(),
                clock=ManualClock(START),
                rng=Random(1),
            )
            client = HttpClient(api, options)
            # When a query is sent, it arrives at the peer whole, with its token, or not at all
            if allowed:
                answer = await client.post("/q", json={"query": 1})
                assert answer.json() == {"result": 7}
                [head] = peer.heads
                assert head.startswith("POST /q HTTP/1.1")
                assert "authorization: bearer s3cret-1" in head.lower()
                assert f"host: peer-7.example:{peer.port}" in head.lower()
            else:
                with pytest.raises(Malformed, match="which is not allowed"):
                    await client.post("/q", json={"query": 1})
                assert peer.heads == []


# ---- TLS ---------------------------------------------------------------------------------------


async def test_the_name_that_was_asked_for_is_kept_for_tls(tmp_path: Path) -> None:
    # Given a server with a certificate for a name that only our resolver knows
    path = certificate(tmp_path, "api.example")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(path)
    names: list[str] = []
    served.sni_callback = lambda _, name, __: names.append(name)
    trusted = ssl.create_default_context(cafile=str(path))
    resolve = resolve_to("127.0.0.1")

    async with serving(answering(b"1"), served) as server:
        async with opened(resolve=resolve, tls=trusted) as transport:
            # When it is called, it is asked for by its name, and believed
            url = f"https://api.example:{server.port}/"
            assert (await transport.send(Request(method="GET", url=url))).json() == 1
            assert names == ["api.example"]
            # And under another name it is not
            with pytest.raises(Transient, match="could not be reached"):
                await transport.send(
                    Request(method="GET", url=f"https://evil.example:{server.port}/")
                )
        # Nor by somebody who does not trust its signature
        async with opened(resolve=resolve) as transport:
            with pytest.raises(Transient, match="could not be reached"):
                await transport.send(Request(method="GET", url=url))
    assert len(server.heads) == 1
