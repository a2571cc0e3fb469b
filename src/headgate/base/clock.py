"""Time, injected: the only module that reads a clock or sleeps.

Everything else takes a `Clock`, so the whole engine runs under a virtual one. What judges a lease
is not this clock but the store's (`store/sql/moment.py`): two machines may disagree on the time.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the engine asks of time."""

    def now(self) -> datetime:
        """The wall clock: an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
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
    """A clock whose every second is `1 / speed` of a real one: to show an afternoon in a minute.

    Only waiting is sped up; work takes the time it takes.
    """

    def __init__(self, speed: float) -> None:
        """Start now, and run at `speed`."""
        self._speed = speed
        self._began = time.monotonic()
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        """The wall clock, as fast time has it."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Fast seconds since it started."""
        return (time.monotonic() - self._began) * self._speed

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop, but shorter."""
        await asyncio.sleep(seconds / self._speed)


class ManualClock:
    """A clock that stands still until it is told to move: for tests of the store alone."""

    def __init__(self, start: datetime) -> None:
        """Start at `start`, an aware datetime."""
        self._now = start

    def now(self) -> datetime:
        """The time it was last set to."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the epoch, which only `advance` moves."""
        return self._now.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self._now += timedelta(seconds=seconds)
