"""A job in a worker's hands, and how it can be taken out of them.

Only the reading of a chunk may be interrupted. Once the result is being written, it is written: a
write that is cut off has an outcome that nobody knows.
"""

import asyncio
from enum import Enum

from headgate.model.job import Job


class Interrupt(Enum):
    """Why a worker must let go of a job."""

    #: The claim is another's: discard everything.
    LOST = "lost"
    #: Somebody asked to cancel it.
    CANCEL = "cancel"
    #: The worker is stopping: hand it back.
    STOP = "stop"
    #: The chunk has taken longer than it may.
    LATE = "late"


class Interrupted(Exception):
    """The chunk was cut short."""

    def __init__(self, why: Interrupt) -> None:
        """Say why."""
        super().__init__(why.value)
        self.why = why


class Holding:
    """One claimed job while this worker works on it."""

    def __init__(self, job: Job) -> None:
        """Hold `job` as it was claimed."""
        self.job = job
        #: End the slice at the next checkpoint.
        self.stopping = False
        #: Why it must let go, once somebody has said so.
        self.why: Interrupt | None = None
        #: The task that reads a chunk, while it does.
        self.reading: asyncio.Task[object] | None = None

    def interrupt(self, why: Interrupt) -> None:
        """Cut the present chunk short, or the next before it begins. The first reason stands."""
        if self.why is None:
            self.why = why
            if self.reading is not None:
                self.reading.cancel()

    def interruptible(self, *, seconds: float) -> "Interruptible":
        """A stretch in which `interrupt` raises Interrupted, and which may last so long."""
        return Interruptible(self, seconds)


class Interruptible:
    """The reading of one chunk.

    A class and a bare timer, because every chunk passes here: `contextmanager` and
    `asyncio.timeout` are made for more, and cost more.
    """

    def __init__(self, holding: Holding, seconds: float) -> None:
        """Let `holding` be interrupted for `seconds` at most."""
        self._holding = holding
        self._seconds = seconds

    def __enter__(self) -> None:
        """Raise at once if the interrupt came before."""
        holding = self._holding
        if holding.why is not None:
            raise Interrupted(holding.why)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._asked_before = task.cancelling()
        holding.reading = task
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, holding.interrupt, Interrupt.LATE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Turn our own cancellation into Interrupted; let anybody else's pass."""
        self._timer.cancel()
        holding = self._holding
        holding.reading = None
        ours = isinstance(error, asyncio.CancelledError) and holding.why is not None
        if ours and self._task.uncancel() <= self._asked_before:
            assert holding.why is not None
            raise Interrupted(holding.why) from None
