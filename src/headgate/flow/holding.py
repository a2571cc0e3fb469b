"""A job in a worker's hands, and how it can be taken out of them.

Only the reading of a chunk may be interrupted. Once the result is being written, it is written: a
write that is cut off has an outcome that nobody knows.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
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
        self._why: Interrupt | None = None
        self._reading: asyncio.Task[object] | None = None

    def interrupt(self, why: Interrupt) -> None:
        """Cut the present chunk short, or the next before it begins. The first reason stands."""
        if self._why is None:
            self._why = why
            if self._reading is not None:
                self._reading.cancel()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """While inside, `interrupt` raises Interrupted here."""
        if self._why is not None:
            raise Interrupted(self._why)
        task = asyncio.current_task()
        assert task is not None
        asked_before = task.cancelling()
        self._reading = task
        try:
            yield
        except asyncio.CancelledError:
            # Ours, unless somebody else cancelled the task as well.
            if self._why is not None and task.uncancel() <= asked_before:
                raise Interrupted(self._why) from None
            raise
        finally:
            self._reading = None
