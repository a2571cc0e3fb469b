"""Background services: how they start, work and stop.

A service does its work in `run_once`, which returns how long to rest. Tests call `run_once`
directly; only `start` creates a task. Stopping a service twice, or before its start, is safe.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error

#: The rest after an unexpected failure; it doubles up to the maximum.
FAILURE_REST_S = 1.0
FAILURE_REST_S_MAX = 60.0
#: The rest between two batches of what nobody waits for.
BATCH_REST_S = 0.1


class Service(ABC):
    """A loop around `run_once`; `nudge` ends a rest early."""

    name: str
    #: The longest rest after failures.
    failure_rest_s_max = FAILURE_REST_S_MAX

    def __init__(self, clock: Clock) -> None:
        """Prepare the service; `clock` measures its rests."""
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._stopping = False
        self._resting = False
        #: Called at the beginning of each rest, for whoever waits until nothing is to be done.
        self.on_rest: Callable[[], None] = lambda: None
        self._log = get_logger(type(self).__module__)

    @abstractmethod
    async def run_once(self) -> float | None:
        """Do one round of work; return the seconds to rest, or None to rest until nudged."""

    async def start(self) -> None:
        """Start the loop in its own task."""
        if self._task is None and not self._stopping:
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        """End the loop after its current round."""
        self._stopping = True
        self.nudge()
        if self._task is not None:
            # Shielded, so that a caller that stops waiting does not cancel the round.
            await asyncio.shield(self._task)
            self._task = None

    def nudge(self) -> None:
        """End the current rest."""
        self._nudged.set()

    @property
    def resting(self) -> bool:
        """Whether it has nothing to do now."""
        return self._resting and not self._nudged.is_set()

    async def _run(self) -> None:
        failure_rest_s = FAILURE_REST_S
        while not self._stopping:
            self._nudged.clear()
            try:
                rest_s = await self.run_once()
                failure_rest_s = FAILURE_REST_S
            except Exception as error:
                # The loop survives a failed round: the database may be restarting.
                self._log.error(
                    LogEvent.ROUND_FAILED, service=self.name, error=describe_error(error)
                )
                rest_s = failure_rest_s
                failure_rest_s = min(self.failure_rest_s_max, 2 * failure_rest_s)
            if not self._stopping:
                # A rest without a length is only a breath: there is more to do.
                self._resting = rest_s is None or rest_s > 0
                self.on_rest()
                await self._rest(rest_s)
                self._resting = False

    async def _rest(self, seconds: float | None) -> None:
        if seconds is None:
            await self._nudged.wait()
            return
        # Slept by the clock, not by the event loop: a demonstration's clock runs faster.
        sleeping = asyncio.create_task(self._clock.sleep(seconds), name=f"{self.name} rests")
        sleeping.add_done_callback(self._wake)
        try:
            await self._nudged.wait()
        finally:
            sleeping.remove_done_callback(self._wake)
            sleeping.cancel()

    def _wake(self, _: asyncio.Task[None]) -> None:
        self._nudged.set()
