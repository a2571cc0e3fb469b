"""No transport sends a request twice: what arrives at a provider is what the budget has granted.

Connections break at every place: before a request is read, before, during and after the answer.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from random import Random
from typing import Any

import pytest

from headgate.base.clock import ManualClock, SystemClock
from headgate.base.errors import Transient
from headgate.base.ids import UlidIds
from headgate.connectors.http.api import Api
from headgate.connectors.http.client import HttpClient
from headgate.flow.budget.gate import BudgetGate
from headgate.limits.memory import MemoryLimiter
from headgate.model.budget import Budget, Limit
from headgate.model.job import Lane
from headgate.ports.http import ClientOptions
from headgate.ports.transport import Transport
from headgate.testing.asgi_transport import AsgiTransport
from tests.unit.connectors.fakes import START
from tests.unit.net.test_aiohttp_transport import opened, serving

#: The others are treated as one of the first.
METHODS = [
    *("GET", "HEAD", "PUT", "POST"),
    *(
        pytest.param(method, marks=pytest.mark.thorough)
        for method in ("OPTIONS", "TRACE", "DELETE", "PATCH")
    ),
]
#: What our own client repeats, each time with a grant.
REPEATED = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
BUDGET = Budget("provider", [Limit(50, per="day")], paced=False)


class Break(StrEnum):
    """Where the provider ends a connection."""

    BEFORE_ANSWER = "before the answer"
    BY_RESET = "before the answer, with a reset"
    IN_HEADERS = "within the headers"
    IN_BODY = "within the body"
    AFTER_ANSWER = "after the answer"


class Provider:
    """Counts the requests that arrive, answers the first ones, and then breaks connections."""

    def __init__(self, where: Break, *, answered_first: int = 0) -> None:
        self.where = where
        self._answered_first = answered_first
        self.arrived = 0

    def next_break(self) -> Break | None:
        self.arrived += 1
        return self.where if self.arrived > self._answered_first else None


class SocketProvider(Provider):
    """A provider behind a socket."""

    async def serve(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        broken, body = self.next_break(), b"" if head.startswith(b"HEAD") else b"whole"
        if broken is Break.BY_RESET:
            no_linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, no_linger
            )
        elif broken is Break.IN_HEADERS:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif broken is Break.IN_BODY:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body[:2])
        elif broken is not Break.BEFORE_ANSWER:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)
        if broken is not None:
            raise ConnectionError("the provider ends it")


class AsgiProvider(Provider):
    """A provider in this process."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        broken = self.next_break()
        if broken is Break.BY_RESET:
            raise Transient("reset")
        if broken is Break.BEFORE_ANSWER:
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if broken is Break.IN_HEADERS:
            return
        half = broken is Break.IN_BODY
        await send({"type": "http.response.body", "body": b"whole", "more_body": half})
        if broken is Break.AFTER_ANSWER:
            raise Transient("reset")


class Bench:
    """A client with a budget of its own, before a provider."""

    def __init__(self, provider: Provider, transport: Transport, url: str, tries_max: int) -> None:
        clock = ManualClock(START)
        self.provider = provider
        self._gate = BudgetGate(
            MemoryLimiter(clock), MemoryLimiter(clock), clock, UlidIds(clock, Random(1))
        )
        self.http = HttpClient(
            Api(base_url=url, tries_max=tries_max),
            ClientOptions(
                gate=self._gate.of(BUDGET, Lane.HOT, "c1"),
                transport=transport,
                access=None,
                clock=clock,
                rng=Random(1),
            ),
        )

    async def granted(self) -> int:
        use = await self._gate.use(BUDGET)
        assert use is not None
        return use.windows[0].used


@asynccontextmanager
async def over_sockets(where: Break, tries_max: int, answered_first: int) -> AsyncIterator[Bench]:
    provider = SocketProvider(where, answered_first=answered_first)
    async with serving(provider.serve) as server, opened() as transport:
        yield Bench(provider, transport, f"http://127.0.0.1:{server.port}", tries_max)


@asynccontextmanager
async def in_process(where: Break, tries_max: int, answered_first: int) -> AsyncIterator[Bench]:
    provider, url = AsgiProvider(where, answered_first=answered_first), "https://app.example"
    transport = AsgiTransport({url: provider}, SystemClock())
    try:
        yield Bench(provider, transport, url, tries_max)
    finally:
        await transport.close()


TRANSPORTS = {"aiohttp": over_sockets, "asgi": in_process}


@pytest.mark.parametrize("answered_first", [0, 1], ids=["new connection", "kept alive"])
@pytest.mark.parametrize("tries_max", [1, 3])
@pytest.mark.parametrize("where", Break)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_what_arrives_is_what_was_granted(
    transport: str, method: str, where: Break, tries_max: int, answered_first: int
) -> None:
    # Given a provider that answers some requests and then breaks every connection
    async with TRANSPORTS[transport](where, tries_max, answered_first) as bench:
        for _ in range(answered_first):
            await bench.http.request(method, "/thing", body=b"given")
        # When more is sent to it
        failures = 0
        for _ in range(2):
            try:
                await bench.http.request(method, "/thing", body=b"given")
            except Transient:
                failures += 1
        # Then no grant became two requests, however the connection ended
        granted = await bench.granted()
        if where is Break.AFTER_ANSWER or (method == "HEAD" and where is Break.IN_BODY):
            # The answer is whole, and the next request may meet the end of its connection.
            assert bench.provider.arrived <= granted
            return
        tries = tries_max if method in REPEATED else 1
        assert failures == 2
        assert bench.provider.arrived == granted == answered_first + 2 * tries
