"""The Clock of base/clock.py on a simulation's time.

Owns what a host's wall clock shows. Time itself moves in the loop.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from headgate.simulation.host import current_host


class VirtualClock:
    """A Clock on the loop's time, seen through the running host's skew and drift."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    ) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        """The running host's wall clock in UTC."""
        elapsed_s = self._loop.time()
        if (host := current_host()) is not None:
            elapsed_s += host.skew_s + host.drift * elapsed_s
        return self._start + timedelta(seconds=elapsed_s)

    def monotonic(self) -> float:
        """Virtual seconds since the start of the run; no skew reaches it."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the virtual loop, which takes no real time."""
        await asyncio.sleep(seconds)  # noqa: TID251 (this is a Clock, and its loop is virtual)
