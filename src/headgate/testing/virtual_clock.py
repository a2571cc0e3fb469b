"""The Clock of `base/clock.py` on a simulation's time.

The module owns what a host's wall clock shows. The loop moves time.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from headgate.testing.host import current_host


class VirtualClock:
    """A Clock on the loop's time, with the skew and drift of the running host."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    ) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        """Return the running host's wall clock in UTC."""
        elapsed_s = self._loop.time()
        if (host := current_host()) is not None:
            elapsed_s += host.skew_s + host.drift * elapsed_s
        return self._start + timedelta(seconds=elapsed_s)

    def monotonic(self) -> float:
        """Return the virtual seconds since the start of the run, without skew."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the virtual loop, which takes no real time."""
        await asyncio.sleep(seconds)  # noqa: TID251 (this is a Clock, and its loop is virtual)
