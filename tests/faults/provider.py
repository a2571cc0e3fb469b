"""Providers on a loopback port that count for themselves what real processes send them.

A request of a budget carries the moment at which it was sent. The provider counts it at that moment
by its own clock, which may be apart from everybody's: so the verdict does not depend on how busy
the machine is.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

WAIT_S_MAX = 90.0
LATENCY_S = 0.005


class LineProvider:
    """Answers requests of a line each, and wakes whoever waits for them."""

    def __init__(self) -> None:
        self.port = 0
        self.by_process: Counter[int] = Counter()
        self._serving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for requests until that is true."""
        async with asyncio.timeout(WAIT_S_MAX), self._arrived:
            await self._arrived.wait_for(true)

    async def answer(self, line: bytes) -> None:
        """Take a request, before it is answered with "ok"."""
        raise NotImplementedError

    def left(self, line: bytes) -> None:
        """Hear that nothing comes after this from where it came."""

    async def arrive(self, process: int) -> None:
        """Count a request of the process, and wake whoever waits."""
        async with self._arrived:
            self.by_process[process] += 1
            self._arrived.notify_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests, one after another."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        last = b""
        # A process that was killed hangs up.
        with suppress(ConnectionError):
            while line := await reader.readline():
                last = line
                await self.answer(line)
                writer.write(b"ok\n")
                await writer.drain()
        self.left(last)
        writer.close()
        self._serving.discard(task)

    async def hung_up(self) -> None:
        """Wait until nobody is connected any more."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=WAIT_S_MAX)


@asynccontextmanager
async def listening(provider: LineProvider) -> AsyncIterator[None]:
    """The provider has a port until the end, and then nobody is connected."""
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()
        await provider.hung_up()


class CountingProvider(LineProvider):
    """Keeps when every request was sent, and how many were under way at once."""

    def __init__(self, *, apart_s: float) -> None:
        """Count by a clock that is so many seconds ahead."""
        super().__init__()
        self.at_once_max = 0
        self._apart_s = apart_s
        self._sent: list[float] = []
        self._at_once = 0

    def in_windows(self, seconds: int) -> Counter[int]:
        """How many arrived in each window that begins at a multiple of so many seconds."""
        return Counter(int(at // seconds) for at in self._sent)

    def in_any(self, seconds: int) -> int:
        """The most that arrived within so many seconds, wherever they begin."""
        times = sorted(self._sent)
        return max(
            (place + 1 - bisect_left(times, at - seconds + 1e-6) for place, at in enumerate(times)),
            default=0,
        )

    async def answer(self, line: bytes) -> None:
        """Count it at the moment that it names."""
        sent_at, process = line.split()
        self._at_once += 1
        self.at_once_max = max(self.at_once_max, self._at_once)
        self._sent.append(float(sent_at) + self._apart_s)
        await self.arrive(int(process))
        # A request takes a while, or none would ever meet another.
        await asyncio.sleep(LATENCY_S)
        self._at_once -= 1


@asynccontextmanager
async def counting_provider(*, apart_s: float = 0.2) -> AsyncIterator[CountingProvider]:
    """A provider that listens until the end."""
    provider = CountingProvider(apart_s=apart_s)
    async with listening(provider):
        yield provider
