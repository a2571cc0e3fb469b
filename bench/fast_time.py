"""An event loop whose clock runs faster than the wall's: an hour of idleness in a minute.

Unlike a simulation it talks to real sockets. Only waiting is sped up; work takes the time it takes.
"""

import asyncio
import selectors
import time
from datetime import UTC, datetime, timedelta
from typing import Any

_START = datetime.now(UTC)


class _FastSelector(selectors.DefaultSelector):
    """Waits the real time that a stretch of fast time lasts."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As ever, but sooner."""
        if timeout is not None and timeout > 0:
            timeout /= self._speed
        return super().select(timeout)


class FastLoop(asyncio.SelectorEventLoop):
    """Its seconds pass `speed` times as fast."""

    def __init__(self, speed: float) -> None:
        """Run at `speed`."""
        super().__init__(_FastSelector(speed))
        self._speed = speed

    def time(self) -> float:
        """Fast seconds."""
        return time.monotonic() * getattr(self, "_speed", 1.0)


class FastClock:
    """The clock of a fast loop."""

    def __init__(self, speed: float) -> None:
        """Run at `speed`."""
        self._speed = speed
        self._began = time.monotonic()

    def now(self) -> datetime:
        """The wall clock, as fast time has it."""
        return _START + timedelta(seconds=(time.monotonic() - self._began) * self._speed)

    def monotonic(self) -> float:
        """Fast seconds."""
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        """Sleep on the fast loop."""
        await asyncio.sleep(seconds)


def run_fast(main: Any, speed: float) -> Any:
    """`asyncio.run`, on a fast loop."""
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        return runner.run(main)
