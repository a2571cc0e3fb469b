"""Work that goes on after the answer: deliveries, and processing that ends later.

It belongs to the provider, not to the caller, so it shares no context with the request that
caused it: when a simulated client crashes, the provider's own work goes on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """Tasks of the provider's own."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._waiting: list[Work] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Work) -> None:
        """Start `work` now, or where no loop runs in this thread, with the next request."""
        self._waiting.append(work)
        self.kick()

    def kick(self) -> None:
        """Start what waits, if a loop runs here."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        # One that is taken is gone: another thread may be adding at this very moment.
        while self._waiting:
            task = loop.create_task(self._waiting.pop(0)(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait until nothing is under way; raises what the work raised."""
        self.kick()
        while self._tasks:
            await asyncio.gather(*self._tasks)
            self.kick()
