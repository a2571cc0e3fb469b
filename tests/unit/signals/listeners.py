"""What the tests of signals listen with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from headgate.ports.signal import Signal
from tests.stores import SOON_S

S = TypeVar("S", bound=Signal)


class Listener:
    """Counts its nudges, and can be waited for."""

    def __init__(self) -> None:
        self.nudges = 0
        self._nudged = asyncio.Event()

    def nudge(self) -> None:
        self.nudges += 1
        self._nudged.set()

    async def heard(self) -> None:
        """Wait for a nudge that nobody has waited for yet."""
        async with asyncio.timeout(SOON_S):
            await self._nudged.wait()
        self._nudged.clear()


class Process(Generic[S]):
    """A signal as one process has it, with two who listen."""

    def __init__(self, signal: S) -> None:
        self.signal = signal
        self.hot, self.cold = Listener(), Listener()
        signal.subscribe("lane.hot", self.hot)
        signal.subscribe("lane.cold", self.cold)


@asynccontextmanager
async def running(*processes: Process[S]) -> AsyncIterator[tuple[Process[S], ...]]:
    """These processes, whose signals have started, and stop at the end."""
    for each in processes:
        await each.signal.start()
    yield processes
    for each in processes:
        await each.signal.stop()
