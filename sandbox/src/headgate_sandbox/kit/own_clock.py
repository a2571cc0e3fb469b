"""This module keeps the provider's own time: it starts at the injected clock's, then runs alone.

An in-process call runs inside the caller's simulated host, whose wall clock may be wrong on
purpose. After the start only the monotonic seconds are read, and no skew affects those. A client
with a wrong clock therefore cannot shift the provider's rate windows.
"""

from datetime import datetime, timedelta

from headgate.base.clock import Clock


class OwnClock:
    """A Clock whose wall time is its start plus the seconds that really passed."""

    def __init__(self, clock: Clock) -> None:
        """Take the wall time from `clock` once; create this outside of any skewed host."""
        self._clock = clock
        self._start = clock.now()
        self._start_s = clock.monotonic()

    def now(self) -> datetime:
        """The provider's wall clock in UTC."""
        return self._start + timedelta(seconds=self._clock.monotonic() - self._start_s)

    def monotonic(self) -> float:
        """The injected clock's monotonic seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass on the injected clock."""
        await self._clock.sleep(seconds)
