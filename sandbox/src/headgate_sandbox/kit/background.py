"""This module runs a provider's work that goes on after an answer, such as webhook deliveries.

The work belongs to the provider and shares no context with the request that caused it: when a
simulated client crashes, the provider's work goes on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """Runs the provider's background tasks."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._waiting: list[Work] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Work) -> None:
        """Start `work` now, or with the next request if no loop runs in this thread."""
        self._waiting.append(work)
        self.kick()

    def kick(self) -> None:
        """Start the waiting work, if a loop runs in this thread."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        # Taken one at a time, because another thread may be adding work meanwhile.
        while self._waiting:
            task = loop.create_task(self._waiting.pop(0)(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Wait until all work is done; raises what the work raised."""
        self.kick()
        while self._tasks:
            await asyncio.gather(*self._tasks)
            self.kick()
