"""What a simulated deployment works on: each kind of work with its people and its own verdict.

A workload adds syncs, tables or background services to the deployment, acts as the people who ask
for that work, and says at the end what must not be. `scenario.py` owns everything they share.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

from sqlalchemy import Connection

from headgate.base.errors import ActiveJobExists, Conflict, StoreError
from headgate.flow import control
from headgate.flow.registry import Sync
from headgate.flow.submit import JobRequest, submit
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import WorkerSettings
from headgate.model.job import Job, Lane
from headgate.model.states import JOB, JobState
from headgate.policy.retry import RetryPolicy
from headgate.simulation.deployment import Deployment, Process, ProcessExtras
from headgate.simulation.loop import SimulationLoop
from headgate.simulation.provider import FaultRates
from headgate.store.sql.leases import LeaseTable

FIRST_ACT_S = 1200.0
#: How often a client repeats a request whose answer it has lost.
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
)


class Stage:
    """What all workloads of a run share."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop = loop
        self.trouble = FaultRates()
        self._client: Process | None = None

    def open(self, deployment: Deployment) -> None:
        """Give the people a process to ask by."""
        self._client = deployment.client()

    @property
    def client(self) -> Process:
        """A process that does not work and never crashes."""
        assert self._client is not None, "people act once the deployment is there"
        return self._client


class Workload:
    """Work of one kind. This one does nothing: a workload overrides what it needs."""

    #: Leased types of its own, beside jobs and items.
    tables: Sequence[LeaseTable[Any, Any, Any, Any]] = ()

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def syncs(self) -> Sequence[Sync]:
        """What it adds to the application."""
        return ()

    def prepare(self, deployment: Deployment) -> None:
        """Give the deployment what the work needs, before any process starts."""

    def install(self, tx: Connection) -> None:
        """Make tables of its own."""

    def join(self, process: Process) -> ProcessExtras:
        """What it adds to a process that starts."""
        return ProcessExtras()

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Who acts in the first act, until `FIRST_ACT_S`."""
        return ()

    async def act(self, name: str, act: Callable[[Random], Awaitable[None]]) -> None:
        """One person, who does something every now and then; `act` is given a draw of chance."""
        draw = self.stage.loop.random(name)
        while self.stage.loop.time() < FIRST_ACT_S:
            await self.stage.client.runtime.clock.sleep(draw.uniform(1, 120))
            with suppress(Conflict, StoreError):
                await act(draw)

    async def wind_up(self) -> bool:
        """Ask for what is still needed, in the last act; whether all of the work has ended."""
        return True

    def judge(self, tx: Connection) -> Iterable[str]:
        """What is wrong at the end."""
        return ()

    def counts(self) -> Mapping[str, int]:
        """How much work there was, by name."""
        return {}


class JobWorkload(Workload):
    """Work that is done by jobs, which people submit."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        #: By id; all of them must come to an end.
        self.acknowledged: dict[str, Job] = {}
        #: Those that were seen to have ended in the last act, where nobody retries them.
        self._ended: set[str] = set()

    async def submit(self, request: JobRequest) -> None:
        """Submit as a client does that may lose the answer: the same request under its key."""
        for _ in range(SUBMITS_MAX):
            try:
                job = (await submit(self.stage.client.runtime, request)).job
            except ActiveJobExists:
                return
            except StoreError:
                continue
            self.acknowledged[job.id] = job
            return

    async def command(self, job_id: str, chance: float) -> None:
        """Do to a job what people do."""
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
        """Resume what people paused; whether every job has ended."""
        rt = self.stage.client.runtime
        for job_id in sorted(self.acknowledged.keys() - self._ended):
            job = await rt.store.get(job_id)
            if job.state in JOB.terminal:
                self._ended.add(job_id)
            elif job.pause_requested or job.state is JobState.PAUSED:
                with suppress(Conflict):
                    await control.resume(rt, job_id)
        return self._ended >= self.acknowledged.keys()

    def counts(self) -> Mapping[str, int]:
        """The jobs."""
        return {"jobs": len(self.acknowledged)}
