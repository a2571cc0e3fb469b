"""A job that this worker has claimed, and how its work is interrupted.

Only reading a chunk and writing it to its destination can be interrupted. The write of the
result to the store is not, because nobody would know the outcome of an interrupted write.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

from headgate.flow.leases.claims import ActiveClaim, ActiveClaims
from headgate.model.job import Job
from headgate.model.states import JobState

#: How long a chunk whose time is over has to end after its interrupt.
HEED_S_MAX = 3.0


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


def _leave_chunk() -> None:
    """Leave a chunk that does not end alone."""


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
        #: Settles the job without its chunk, which does not end.
        self.abandon: Callable[[], None] = _leave_chunk
        #: Whether the job is settled without its chunk, and the task that does it.
        self.abandoned = False
        self.closing: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

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

    def end_time(self) -> None:
        """Interrupt a chunk whose time is over, and give it up if it goes on in spite of that.

        Other interrupts have deadlines of their own: that of a cancel, and that of a stop.
        """
        self.interrupt(Interrupt.LATE)
        if self.reason is Interrupt.LATE:
            self._patience = asyncio.get_running_loop().call_later(HEED_S_MAX, self._abandon_chunk)

    def _abandon_chunk(self) -> None:
        """Leave the chunk to itself; whatever it brings is discarded."""
        self.abandoned = True
        self.abandon()

    def end_chunk(self) -> None:
        """Note that the chunk has ended, in whatever way."""
        self.reading = None
        if self._patience is not None:
            self._patience.cancel()

    def drop(self) -> None:
        """Stop extending the claim."""
        assert self._claims is not None, "the job was claimed by itself"
        self._claims.drop(self.row)

    async def confirm(self) -> None:
        """Make sure that the job is still this worker's, if a heartbeat was missed.

        It is for writes to others, which no token fences. A worker that was frozen past its lease,
        or whose source does not heed that the job is lost, is interrupted here.
        """
        if self._claims is not None and self._claims.may_have_expired:
            await self._claims.extend()
            if self.reason is not None:
                # The interrupt takes effect where the task waits, and nothing may come before it.
                await asyncio.sleep(0)  # noqa: TID251 (it does not wait for any time)
        if self.abandoned or self.reason is Interrupt.LOST:
            # The source has swallowed its interrupt.
            raise Interrupted(Interrupt.LOST)

    def interruptible(
        self, *, seconds: float, abandon: Callable[[], None] = _leave_chunk
    ) -> "Interruptible":
        """A block in which `interrupt` raises Interrupted, and which may last so many seconds.

        `abandon` is called if the block goes on after its time. When it ends at last, it raises
        Interrupted as if the job were another's.
        """
        self.abandon = abandon
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
        self._timer = loop.call_later(self._seconds, claimed.end_time)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Turn our own cancellation into Interrupted; pass on any other."""
        self._timer.cancel()
        claimed = self._claimed
        claimed.end_chunk()
        if claimed.abandoned:
            raise Interrupted(Interrupt.LOST) from None
        ours = isinstance(error, asyncio.CancelledError) and claimed.reason is not None
        if ours and self._task.uncancel() <= self._asked_before:
            assert claimed.reason is not None
            raise Interrupted(claimed.reason) from None
