"""The clocks: this is the only module that reads the time or sleeps.

All other code takes a `Clock`, so the whole engine also runs under a virtual one. Leases are judged
by the store's clock (`store/sql/engine/moment.py`), because two machines may disagree on the time.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A clock, as the engine uses it."""

    def now(self) -> datetime:
        """The wall clock: an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)


class FastClock:
    """A clock that runs `speed` times as fast as the real one, to show an afternoon in a minute.

    Only waiting gets shorter: work takes as long as it takes.
    """

    def __init__(self, speed: float, *, start: datetime | None = None) -> None:
        """Start at `start`, or else now, and run at `speed`."""
        self._speed = speed
        self._began = time.monotonic()
        self._start = datetime.now(UTC) if start is None else start

    def now(self) -> datetime:
        """The wall clock in fast time."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Fast seconds since the clock started."""
        return (time.monotonic() - self._began) * self._speed

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop, for `1 / speed` of the time."""
        await asyncio.sleep(seconds / self._speed)


class ManualClock:
    """A clock that stands still until a test advances it; for tests of the store alone."""

    def __init__(self, start: datetime) -> None:
        """Start at `start`, an aware datetime."""
        self._now = start

    def now(self) -> datetime:
        """The time that the clock was last set to."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the epoch, which only `advance` moves."""
        return self._now.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock forward by `seconds`."""
        self._now += timedelta(seconds=seconds)
