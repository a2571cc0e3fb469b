"""The workers of a lane: they claim due jobs and work on each in slices.

The hot and the cold lane have their own slots, so a full cold lane takes nothing from the hot one.
"""

import asyncio
import math
from collections.abc import Callable
from typing import cast

import msgspec

from headgate.base.errors import InvalidInput
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.base.service import Service
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.runtime import Runtime
from headgate.flow.step.claimed_job import ClaimedJob
from headgate.flow.step.step import run_slice
from headgate.model.job import Job, Lane
from headgate.model.states import JobState
from headgate.ports.signal import lane_topic

#: With nothing due and no signal, claim again after this time, because a signal may be lost.
IDLE_S = 300.0
#: The slice of a job that has its worker for itself.
ONE_JOB_S = 7 * 86_400.0


class LaneSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a lane runs at once, and how long one job runs before others get a turn."""

    concurrency: int
    slice_s: float

    def __post_init__(self) -> None:
        """Refuse a lane that cannot work."""
        if self.concurrency < 1:
            raise InvalidInput("concurrency", "must be at least 1")
        if self.slice_s < 0:
            raise InvalidInput("slice_s", "must not be negative")


class LaneWorkers(Service):
    """The workers of one lane in this process."""

    def __init__(
        self,
        rt: Runtime,
        lane: Lane,
        size: LaneSize,
        claims: ActiveClaims[Job],
        *,
        worker: str,
    ) -> None:
        """Work on `lane` with `size`, as the worker called `worker`."""
        super().__init__(rt.clock)
        self.name = lane_topic(lane)
        self._rt = rt
        self._lane = lane
        self._size = size
        self._claims = claims
        self._worker = worker
        self._tasks: set[asyncio.Task[None]] = set()
        #: How many jobs it may still take; None: any number.
        self._left: int | None = None
        #: The jobs that it took, as long as their number is limited.
        self.taken: list[str] = []
        #: The queue may have more jobs than the last claim took.
        self._more = True
        #: When a job comes due, as the last claim has seen.
        self._due_s = math.inf
        #: Called when a job has come due: whoever claims it tells nobody.
        self.on_due: Callable[[], None] = lambda: None
        rt.signal.subscribe(self.name, self)

    async def run_once(self) -> float | None:
        """Fill the free slots, then rest until a job is due or a slot is free."""
        free = self._size.concurrency - len(self._tasks)
        if self._left is not None:
            free = min(free, self._left)
        if free <= 0:
            return None
        began_s = self._clock.monotonic()
        if began_s >= self._due_s:
            self.on_due()
        claimed = await self._rt.jobs.claim(
            self._lane, worker=self._worker, limit=free, lease=self._claims.lease
        )
        for job in claimed.jobs:
            self._take(job, seen_s=began_s)
        if self._left is not None:
            self._left -= len(claimed.jobs)
            self.taken += [job.id for job in claimed.jobs]
        self._more = len(claimed.jobs) == free
        self._due_s = math.inf
        if self._more:
            return None
        if claimed.next_due_s is None:
            return IDLE_S
        self._due_s = self._clock.monotonic() + claimed.next_due_s
        return min(IDLE_S, claimed.next_due_s)

    def take_one(self) -> None:
        """Take one job and no other, and work on it until it ends or has to wait."""
        self._left = 1
        self._size = LaneSize(concurrency=1, slice_s=ONE_JOB_S)

    @property
    def resting(self) -> bool:
        """Whether no job is due, and none is being worked on."""
        return super().resting and not self._tasks

    async def join(self) -> None:
        """Wait until every running slice has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, job: Job, *, seen_s: float) -> None:
        claimed = ClaimedJob(job, self._claims)
        self._claims.add([claimed], seen_s=seen_s)
        # The set keeps the task alive: the event loop only has weak references to tasks.
        task = asyncio.create_task(self._work(claimed), name=f"slice {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, claimed: ClaimedJob) -> None:
        job: Job | None = None
        try:
            job = await run_slice(self._rt, claimed, slice_s=self._size.slice_s)
            if job is None:
                self._claims.lose(claimed.row)
        except Exception as error:
            # The store stays unreachable: the lease will end, and another process rescues the job.
            self._log.error(LogEvent.SLICE_FAILED, job=claimed.row.id, error=describe_error(error))
        finally:
            self._claims.drop(claimed.row)
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            if self._more or (job is not None and job.state is JobState.PENDING):
                self.nudge()
            self.on_rest()
