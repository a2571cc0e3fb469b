"""A job that this worker has claimed, and how its work is interrupted.

Only reading a chunk and writing it to its destination can be interrupted. The write of the
result to the store is not, because nobody would know the outcome of an interrupted write.
"""

import asyncio
from enum import Enum

from headgate.flow.claims import ActiveClaim, ActiveClaims
from headgate.model.job import Job
from headgate.model.states import JobState


class Interrupt(Enum):
    """Why a worker must stop working on a job."""

    #: Another worker has the job: discard all work.
    LOST = "lost"
    #: Somebody asked to cancel the job.
    CANCEL = "cancel"
    #: The worker is stopping: release the job.
    STOP = "stop"
    #: The chunk has taken too long.
    LATE = "late"


class Interrupted(Exception):
    """The chunk was cut short."""

    def __init__(self, reason: Interrupt) -> None:
        """Take the reason of the interrupt."""
        super().__init__(reason.value)
        self.reason = reason


class ClaimedJob(ActiveClaim[Job]):
    """One claimed job while this worker works on it."""

    def __init__(self, job: Job, claims: ActiveClaims[Job] | None = None) -> None:
        """Begin with the job as it was claimed; it is one of `claims`, if there are others."""
        super().__init__(job)
        self._claims = claims
        #: End the slice at the next checkpoint.
        self.stopping = False
        #: The reason of the interrupt, once there is one.
        self.reason: Interrupt | None = None
        #: The task that reads a chunk, while it runs.
        self.reading: asyncio.Task[object] | None = None

    def on_found(self, state: JobState) -> None:
        """Interrupt a job that is being cancelled."""
        if state is JobState.CANCELLING:
            self.interrupt(Interrupt.CANCEL)

    def on_lost(self) -> None:
        """Interrupt the work; if the job was settled meanwhile, this has no effect."""
        self.interrupt(Interrupt.LOST)

    def interrupt(self, reason: Interrupt) -> None:
        """Interrupt the present chunk, or the next before it begins. The first reason counts."""
        if self.reason is None:
            self.reason = reason
            if self.reading is not None:
                self.reading.cancel()

    async def confirm(self) -> None:
        """Make sure that the job is still this worker's, if a heartbeat was missed.

        It is for writes to others, which no token fences. A worker that was frozen past its lease
        is interrupted here.
        """
        if self._claims is not None and self._claims.may_have_expired:
            await self._claims.extend()
            if self.reason is not None:
                # The interrupt takes effect where the task waits, and nothing may come before it.
                await asyncio.sleep(0)  # noqa: TID251 (it does not wait for any time)

    def interruptible(self, *, seconds: float) -> "Interruptible":
        """A block in which `interrupt` raises Interrupted, and which may last so many seconds."""
        return Interruptible(self, seconds)


class Interruptible:
    """The block that reads one chunk and can be interrupted.

    It is a class with a bare timer, because it runs for every chunk: `contextmanager` and
    `asyncio.timeout` cost more.
    """

    def __init__(self, claimed: ClaimedJob, seconds: float) -> None:
        """Let `claimed` be interrupted for `seconds` at most."""
        self._claimed = claimed
        self._seconds = seconds

    def __enter__(self) -> None:
        """Start the timer; raise at once if the interrupt came before."""
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
        """Turn our own cancellation into Interrupted; pass on any other."""
        self._timer.cancel()
        claimed = self._claimed
        claimed.reading = None
        ours = isinstance(error, asyncio.CancelledError) and claimed.reason is not None
        if ours and self._task.uncancel() <= self._asked_before:
            assert claimed.reason is not None
            raise Interrupted(claimed.reason) from None
