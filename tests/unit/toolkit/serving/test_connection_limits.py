"""Clients that send too slowly, read too slowly or are too many, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http import auto
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headgate.base.listening import ConnectionLimits, listening
from headgate.toolkit.serving.connection_limits import HEADER_BYTES_MAX
from headgate.toolkit.serving.http_server import serve_http

#: Short enough to wait for, in those tests that wait for it.
SHORT_S = 0.05
#: So long that a test that waits for it fails by its own time-out.
LONG_S = 3600.0
PATIENT = ConnectionLimits(headers_s=LONG_S, body_s=LONG_S, idle_s=LONG_S)
WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
HALF_HEADERS = b"GET / HTTP/1.1\r\nHost: he"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nhalf"


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "AutoHTTPProtocol", request.param)


class Site:
    """Reads every body, and says how long it was; it can be told to wait, and to say more."""

    def __init__(self, *, answer_bytes: int = 0) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self._answer_bytes = answer_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.set()
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            self.left.set()
            return
        await self.may_answer.wait()
        said = f"got {len(body)}".encode() + b"." * self._answer_bytes
        length = str(len(said)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", length)],
            }
        )
        await send({"type": "http.response.body", "body": said, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.left.set()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        async with asyncio.timeout(60):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    async def answer(self) -> bytes:
        """One answer of the site."""
        async with asyncio.timeout(60):
            await self._reader.readuntil(b"\r\n\r\n")
            return await self._reader.readexactly(len("got 0"))


class Clients:
    def __init__(self, port: int) -> None:
        self._port = port
        self._open: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._open.append(client)
        return client

    def leave(self) -> None:
        for client in self._open:
            client.writer.close()


@asynccontextmanager
async def serving(limits: ConnectionLimits, site: Site | None = None) -> AsyncIterator[Clients]:
    with listening("127.0.0.1", 0) as listener:
        async with serve_http(site or Site(), listener, stop_s=1, limits=limits):
            clients = Clients(listener.getsockname()[1])
            yield clients
            clients.leave()


@pytest.mark.parametrize("sent", [b"", HALF_HEADERS])
async def test_headers_that_do_not_come_are_not_waited_for(sent: bytes) -> None:
    async with serving(ConnectionLimits(headers_s=SHORT_S, body_s=LONG_S)) as clients:
        client = await clients.connect()
        await client.send(sent)

        answer = await client.rest()

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(b"its headers took too long")


async def test_headers_that_drip_get_no_more_time() -> None:
    async with serving(ConnectionLimits(headers_s=SHORT_S, body_s=LONG_S)) as clients:
        client = await clients.connect()
        ended = asyncio.create_task(client.rest())
        await client.send(HALF_HEADERS)
        # One byte at each turn of the loop, for as long as it takes.
        while not ended.done():
            client.writer.write(b"x")
            await asyncio.wait([ended], timeout=SHORT_S / 10)

        assert b" 408 " in await ended or not ended.result()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    site = Site()
    async with serving(ConnectionLimits(headers_s=LONG_S, body_s=SHORT_S), site) as clients:
        client = await clients.connect()
        await client.send(HALF_BODY)

        answer = await client.rest()

        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        # And the site learns of it: its handler does not wait for ever either.
        await asyncio.wait_for(site.left.wait(), 60)


async def test_the_next_request_of_a_connection_has_a_deadline_too() -> None:
    async with serving(ConnectionLimits(headers_s=SHORT_S, idle_s=LONG_S)) as clients:
        client = await clients.connect()
        await client.send(WHOLE)
        assert await client.answer() == b"got 0"
        await client.send(HALF_HEADERS)

        assert b" 408 " in await client.rest()


async def test_an_idle_connection_is_closed() -> None:
    async with serving(ConnectionLimits(idle_s=SHORT_S)) as clients:
        client = await clients.connect()
        await client.send(WHOLE)

        assert (await client.rest()).endswith(b"got 0")


async def test_a_slow_answer_is_not_cut() -> None:
    # Given a site that takes its time, and clients that may take none
    site = Site()
    site.may_answer.clear()
    limits = ConnectionLimits(headers_s=SHORT_S, body_s=SHORT_S, idle_s=SHORT_S)
    async with serving(limits, site) as clients:
        client, other = await clients.connect(), await clients.connect()
        await client.send(WHOLE)
        await asyncio.wait_for(site.asked.wait(), 60)
        # When another is cut off in the meantime, which takes as long as any deadline
        await other.rest()
        site.may_answer.set()

        # Then the answer comes
        assert await client.answer() == b"got 0"


async def test_whoever_does_not_read_the_answer_is_cut_off() -> None:
    # More than the buffers of both sides hold.
    site = Site(answer_bytes=50_000_000)
    limits = ConnectionLimits(headers_s=LONG_S, body_s=SHORT_S)
    async with serving(limits, site) as clients:
        client = await clients.connect()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it can be read too
        await client.send(WHOLE)

        await asyncio.wait_for(site.left.wait(), 60)


async def test_headers_without_an_end_are_refused() -> None:
    async with serving(PATIENT) as clients:
        client = await clients.connect()
        await client.send(b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * (HEADER_BYTES_MAX + 9))

        assert (await client.rest())[:12] in {b"HTTP/1.1 431", b"HTTP/1.1 400", b""}


async def test_a_large_body_is_no_large_header() -> None:
    async with serving(PATIENT) as clients:
        client = await clients.connect()
        size = 4 * HEADER_BYTES_MAX
        await client.send(f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n".encode())
        await client.send(b"x" * size)

        assert await client.answer() == b"got 2"


# ---- how many ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", HALF_HEADERS, HALF_BODY, WHOLE])
@pytest.mark.security(28)
async def test_who_keeps_the_server_waiting_makes_room_for_others(sent: bytes) -> None:
    limits = ConnectionLimits(headers_s=LONG_S, body_s=LONG_S, idle_s=LONG_S, connections_max=2)
    async with serving(limits) as clients:
        # Given as many connections as may be, all of which wait for their clients
        first, second = await clients.connect(), await clients.connect()
        for each in (first, second):
            await each.send(sent)
            if sent is WHOLE:
                await each.answer()
        # When one more comes
        third = await clients.connect()
        await third.send(WHOLE)

        # Then it is served, and the one that waited longest is closed; the other one is not
        assert await third.answer() == b"got 0"
        await first.rest()
        if sent == b"":
            await second.send(WHOLE)
            assert await second.answer() == b"got 0"


async def test_nobody_who_waits_for_an_answer_is_closed_for_others() -> None:
    site = Site()
    site.may_answer.clear()
    limits = ConnectionLimits(headers_s=LONG_S, body_s=LONG_S, idle_s=LONG_S, connections_max=1)
    async with serving(limits, site) as clients:
        first = await clients.connect()
        await first.send(WHOLE)
        await asyncio.wait_for(site.asked.wait(), 60)
        second = await clients.connect()

        assert (await second.rest()).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        site.may_answer.set()
        assert await first.answer() == b"got 0"
