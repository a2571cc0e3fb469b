"""A job in a worker's hands, and how it can be taken out of them.

Only the reading of a chunk may be interrupted. Once the result is being written, it is written: a
write that is cut off has an outcome that nobody knows.
"""

import asyncio
from enum import Enum

from headgate.flow.claims import ActiveClaim
from headgate.model.job import Job
from headgate.model.states import JobState


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

    def __init__(self, reason: Interrupt) -> None:
        """Say why."""
        super().__init__(reason.value)
        self.reason = reason


class ClaimedJob(ActiveClaim[Job]):
    """One claimed job while this worker works on it."""

    def __init__(self, job: Job) -> None:
        """Hold `job` as it was claimed."""
        super().__init__(job)
        #: End the slice at the next checkpoint.
        self.stopping = False
        #: Why it must let go, once somebody has said so.
        self.reason: Interrupt | None = None
        #: The task that reads a chunk, while it does.
        self.reading: asyncio.Task[object] | None = None

    def on_found(self, state: JobState) -> None:
        """Let go of a job that is to be cancelled."""
        if state is JobState.CANCELLING:
            self.interrupt(Interrupt.CANCEL)

    def on_lost(self) -> None:
        """Let go: if the job has been settled meanwhile, this reaches nobody."""
        self.interrupt(Interrupt.LOST)

    def interrupt(self, reason: Interrupt) -> None:
        """Cut the present chunk short, or the next before it begins. The first reason stands."""
        if self.reason is None:
            self.reason = reason
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

    def __init__(self, claimed: ClaimedJob, seconds: float) -> None:
        """Let `claimed` be interrupted for `seconds` at most."""
        self._claimed = claimed
        self._seconds = seconds

    def __enter__(self) -> None:
        """Raise at once if the interrupt came before."""
        claimed = self._claimed
        if claimed.reason is not None:
            raise Interrupted(claimed.reason)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._asked_before = task.cancelling()
        claimed.reading = task
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, claimed.interrupt, Interrupt.LATE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Turn our own cancellation into Interrupted; let anybody else's pass."""
        self._timer.cancel()
        claimed = self._claimed
        claimed.reading = None
        ours = isinstance(error, asyncio.CancelledError) and claimed.reason is not None
        if ours and self._task.uncancel() <= self._asked_before:
            assert claimed.reason is not None
            raise Interrupted(claimed.reason) from None
