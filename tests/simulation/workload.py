"""Workloads: what a simulated deployment works on, each with its people and its own checks.

A workload adds syncs, tables or background services to the deployment, acts as the people who
request that work, and checks its invariants at the end. `scenario.py` owns what they share.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

from sqlalchemy import Connection

from headgate.base.errors import ActiveJobExists, Conflict, StoreError
from headgate.flow.jobs import control
from headgate.flow.jobs.submit import JobRequest, submit_unchecked
from headgate.flow.outbox.service import OutboxSettings
from headgate.flow.registry import Sync
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import WorkerSettings
from headgate.model.job import Job, Lane
from headgate.model.states import JOB, JobState
from headgate.policy.deliveries import DeliveryRetryPolicy
from headgate.policy.retry import RetryPolicy
from headgate.store.sql.leases.table import LeaseTable
from headgate.testing.loop import SimulationLoop
from tests.simulation.deployment import Deployment, Process, ProcessExtras
from tests.simulation.provider import FaultRates

FIRST_ACT_S = 1200.0
#: How often a client repeats a request whose response was lost.
SUBMITS_MAX = 3

POLICY = RetryPolicy(
    backoff_s=2, backoff_s_max=20, cooldown_s=60, stagger_s=1, pauses_max=3, crashes_max=50
)
WORKER = WorkerSettings(
    lanes={
        Lane.HOT: LaneSize(concurrency=4, slice_s=4.0),
        Lane.COLD: LaneSize(concurrency=2, slice_s=15.0),
    },
    lease_s=15.0,
    grace_s=5.0,
    # Short waits, so that much happens; and what was sent is purged within the run.
    outbox=OutboxSettings(
        interval_s=60.0,
        batch_limit=4,
        retry=DeliveryRetryPolicy(base_s=2, max_s=30),
        keep_sent=timedelta(minutes=10),
    ),
)


class Stage:
    """The parts that all workloads of a run share."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop = loop
        self.trouble = FaultRates()
        self._client: Process | None = None

    def open(self, deployment: Deployment) -> None:
        """Create the process that the people use."""
        self._client = deployment.client()

    @property
    def client(self) -> Process:
        """A process that does not work and never crashes."""
        assert self._client is not None, "people act once the deployment is there"
        return self._client


class Workload:
    """Work of one kind. This base does nothing: a workload overrides what it needs."""

    #: Further leased types, besides jobs, items and deliveries.
    tables: Sequence[LeaseTable[Any, Any, Any, Any]] = ()

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def syncs(self) -> Sequence[Sync]:
        """Return the syncs that it adds to the application."""
        return ()

    def prepare(self, deployment: Deployment) -> None:
        """Give the deployment what the work needs, before any process starts."""

    def install(self, tx: Connection) -> None:
        """Create its own tables."""

    def join(self, process: Process) -> ProcessExtras:
        """Return what it adds to a process that starts."""
        return ProcessExtras()

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the people of the first act, who act until `FIRST_ACT_S`."""
        return ()

    async def act(self, name: str, act: Callable[[Random], Awaitable[None]]) -> None:
        """Act as one person, who calls `act` every now and then with a random generator."""
        draw = self.stage.loop.random(name)
        while self.stage.loop.time() < FIRST_ACT_S:
            await self.stage.client.runtime.clock.sleep(draw.uniform(1, 120))
            with suppress(Conflict, StoreError):
                await act(draw)

    async def wind_up(self) -> bool:
        """Submit what is still needed in the last act, and return whether all work has ended."""
        return True

    def judge(self, tx: Connection) -> Iterable[str]:
        """Return what is wrong at the end."""
        return ()

    def counts(self) -> Mapping[str, int]:
        """Return the amount of work, by name."""
        return {}


class JobWorkload(Workload):
    """Work that people submit as jobs."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        #: The acknowledged jobs by id; all of them must end.
        self.acknowledged: dict[str, Job] = {}
        #: The jobs that have ended in the last act, when nobody retries them.
        self._ended: set[str] = set()

    async def submit(self, request: JobRequest) -> None:
        """Submit like a client that may lose the response: repeat the request with its key."""
        for _ in range(SUBMITS_MAX):
            try:
                job = (await submit_unchecked(self.stage.client.runtime, request)).job
            except ActiveJobExists:
                return
            except StoreError:
                continue
            self.acknowledged[job.id] = job
            return

    async def command(self, job_id: str, chance: float) -> None:
        """Pause, resume, retry or cancel a job."""
        rt = self.stage.client.runtime
        if chance < 0.3:
            await control.pause(rt, job_id)
        elif chance < 0.6:
            await control.resume(rt, job_id)
        elif chance < 0.85:
            await control.retry_now(rt, job_id)
        else:
            await control.cancel(rt, job_id, deadline=timedelta(seconds=10))

    async def wind_up(self) -> bool:
        """Resume what people paused, and return whether every job has ended."""
        rt = self.stage.client.runtime
        for job_id in sorted(self.acknowledged.keys() - self._ended):
            job = await rt.jobs.get(job_id)
            if job.state in JOB.terminal:
                self._ended.add(job_id)
            elif job.pause_requested or job.state is JobState.PAUSED:
                with suppress(Conflict):
                    await control.resume(rt, job_id)
        return self._ended >= self.acknowledged.keys()

    def counts(self) -> Mapping[str, int]:
        """Count the jobs."""
        return {"jobs": len(self.acknowledged)}
