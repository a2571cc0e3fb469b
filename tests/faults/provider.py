"""A provider on a loopback port that counts for itself what real processes send it.

A request carries the moment at which it was sent. The provider counts it at that moment by its own
clock, which may be apart from everybody's: so the verdict does not depend on how busy the machine
is.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

WAIT_S_MAX = 90.0
LATENCY_S = 0.005


class CountingProvider:
    """Keeps when every request was sent, and how many were under way at once."""

    def __init__(self, *, apart_s: float) -> None:
        """Count by a clock that is so many seconds ahead."""
        self.port = 0
        self.by_process: Counter[int] = Counter()
        self.at_once_max = 0
        self._apart_s = apart_s
        self._sent: list[float] = []
        self._at_once = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()

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

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for requests until that is true."""
        async with asyncio.timeout(WAIT_S_MAX), self._arrived:
            await self._arrived.wait_for(true)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests, one after another."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while line := await reader.readline():
                await self._answer(line)
                writer.write(b"ok\n")
        except ConnectionError:
            pass  # a worker that was killed
        finally:
            writer.close()
            self._serving.discard(task)

    async def _answer(self, line: bytes) -> None:
        sent_at, process = line.split()
        self._at_once += 1
        self.at_once_max = max(self.at_once_max, self._at_once)
        async with self._arrived:
            self._sent.append(float(sent_at) + self._apart_s)
            self.by_process[int(process)] += 1
            self._arrived.notify_all()
        # A request takes a while, or none would ever meet another.
        await asyncio.sleep(LATENCY_S)
        self._at_once -= 1

    async def hung_up(self) -> None:
        """Wait until nobody is connected any more."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=WAIT_S_MAX)


@asynccontextmanager
async def counting_provider(*, apart_s: float = 0.2) -> AsyncIterator[CountingProvider]:
    """A provider that listens until the end."""
    provider = CountingProvider(apart_s=apart_s)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        await provider.hung_up()
