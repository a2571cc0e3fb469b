"""A receiver of messages on a loopback port, which fails, blocks and refuses as a test wants."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

WAIT_S_MAX = 60.0


class Receiver:
    """Accepts each idempotency key once, and notes what arrived."""

    def __init__(self) -> None:
        self.url = ""
        self.key = "right"
        #: What was accepted, by key; and how often each key arrived.
        self.accepted: dict[str, bytes] = {}
        self.arrivals: Counter[str] = Counter()
        #: Keys that were sent again while an attempt was under way.
        self.met: list[str] = []
        #: Keys under which two contents came.
        self.changed: list[str] = []
        self.requests = 0
        #: One request in this many is refused with 503, half of them after they took effect.
        self.fails_every = 0
        #: Set: requests are answered. Not set: they wait, before they take effect.
        self.answers = asyncio.Event()
        self.answers.set()
        self._sending: Counter[str] = Counter()
        self._arrived = asyncio.Condition()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for requests until that is true."""
        async with asyncio.timeout(WAIT_S_MAX), self._arrived:
            await self._arrived.wait_for(true)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        if request.headers["x-api-key"] != self.key:
            return web.json_response({"error": "the key is wrong"}, status=401)
        key, body = request.headers["idempotency-key"], await request.read()
        async with self._arrived:
            self.requests += 1
            number = self.requests
            if self._sending[key]:
                self.met.append(key)
            self._sending[key] += 1
            self.arrivals[key] += 1
            self._arrived.notify_all()
        try:
            await self.answers.wait()
            return self._answer(number, key, body)
        finally:
            self._sending[key] -= 1

    def _answer(self, number: int, key: str, body: bytes) -> web.Response:
        fails = bool(self.fails_every) and number % self.fails_every == 0
        if fails and number % (2 * self.fails_every):
            return web.json_response({}, status=503)

        if self.accepted.setdefault(key, body) != body:
            self.changed.append(key)
        return web.json_response({}, status=503 if fails else 201)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that is gone afterwards."""
    receiver = Receiver()
    # A sender that was killed hangs up; what it sent takes effect all the same.
    application = web.Application(handler_args={"handler_cancellation": False})
    application.router.add_post("/v1/orders", receiver.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        receiver.answers.set()
        await runner.cleanup()
