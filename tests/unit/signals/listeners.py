"""What the tests of signals listen with."""

import asyncio

from tests.stores import SOON_S


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
