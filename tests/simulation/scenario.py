"""One seeded run: work, people and faults, then a calm last act, then the verdict.

In the first act everything goes on at once: processes crash and stall, their clocks differ, the
store and the provider fail, people pause and cancel. In the last act nothing fails, and everything
that was acknowledged must end. The same seed gives the same run, to the last step.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from headgate.model.job import Lane
from headgate.ports.signal import CONTROL, OUTBOX, SCHEDULES, SWEEP, lane_topic
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.store.sql.jobs.store import SqlJobs
from headgate.testing.host import release_frozen
from headgate.testing.loop import SimulationLoop
from headgate.testing.runner import run
from tests.simulation import audit
from tests.simulation.delivery_work import DeliveryWorkload
from tests.simulation.deployment import Deployment, Process
from tests.simulation.item_work import ItemWorkload
from tests.simulation.renewal_work import RenewalWorkload
from tests.simulation.schedule_work import ScheduleWorkload
from tests.simulation.sync_work import SyncWorkload
from tests.simulation.upload_work import UploadWorkload
from tests.simulation.workload import FIRST_ACT_S, WORKER, Stage, Workload

WORKERS = 3
#: How long the last act may take until everything has ended: LIVE.
LAST_ACT_S = 3600.0
#: What every seed has. It draws one of `SWARM` besides, so not every seed has everything.
EVERY_SEED: Sequence[type[Workload]] = (SyncWorkload, DeliveryWorkload)
SWARM: Sequence[Sequence[type[Workload]]] = (
    (),
    (ItemWorkload,),
    (ItemWorkload,),
    (RenewalWorkload,),
    (ScheduleWorkload,),
    (ScheduleWorkload,),
    (UploadWorkload,),
)


class Ablation(msgspec.Struct, frozen=True):
    """A safeguard to switch off, to show that the simulation notices."""

    name: str
    #: Switches the safeguard off for as long as the context lasts.
    switch_off: Callable[[], AbstractContextManager[object]] = nullcontext
    #: A statement to run on the new database.
    prepare: str | None = None
    make_jobs: Callable[[InlineSqliteDatabase, Sequence[str]], SqlJobs] = SqlJobs
    #: The only workloads to play, because others would not notice; none: those of the seed.
    workloads: Sequence[type[Workload]] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    seed: int
    trace_hash: str
    #: The amount of work by name: jobs, chunks and whatever else the workloads count.
    counts: Mapping[str, int]
    crashes: int
    virtual_s: float
    violations: list[str]
    report: str


NO_ABLATION = Ablation("nothing")


def play(
    seed: int, ablation: Ablation = NO_ABLATION, workloads: Sequence[type[Workload]] = ()
) -> Verdict:
    """Run one seed, with these workloads besides those that it draws."""
    with tempfile.TemporaryDirectory(prefix="headgate-sim-") as folder, ablation.switch_off():
        try:
            return run(
                lambda loop: _Run(
                    loop, Path(folder) / "sim.db", seed, ablation, workloads
                ).perform(),
                seed=seed,
            )
        finally:
            release_frozen()


class _Run:
    def __init__(
        self,
        loop: SimulationLoop,
        file: Path,
        seed: int,
        ablation: Ablation,
        more: Sequence[type[Workload]],
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._ablation = ablation
        self._stage = Stage(loop)
        drawn = loop.random("workloads").choice(SWARM)
        makes: Sequence[type[Workload]] = ablation.workloads or tuple(
            dict.fromkeys((*EVERY_SEED, *drawn, *more))
        )
        self._workloads = [make(self._stage) for make in makes]
        self._deployment = Deployment(
            loop,
            file,
            [sync for work in self._workloads for sync in work.syncs()],
            worker=WORKER,
            make_jobs=ablation.make_jobs,
            joining=[work.join for work in self._workloads],
        )
        for work in self._workloads:
            work.prepare(self._deployment)
        self._stage.open(self._deployment)
        self._database = self._stage.client.database
        self._tables = [
            *audit.TABLES,
            *(table for work in self._workloads for table in work.tables),
        ]
        self._crashes = 0

    async def perform(self) -> Verdict:
        """Run both acts, and return the verdict."""
        await self._open()
        for number in range(WORKERS):
            self._deployment.launch(f"worker-{number}")
        self._choose_faults()
        async with asyncio.TaskGroup() as acting:
            for work in self._workloads:
                for person in work.people():
                    acting.create_task(person)
            acting.create_task(self._nemesis(), name="nemesis")
        self._calm()
        await self._last_act()
        violations = await self._database.read(
            lambda tx: [
                *audit.findings(tx, self._tables),
                *(found for work in self._workloads for found in work.judge(tx)),
            ]
        )
        return self._verdict([*violations, *self._deployment.witness.findings])

    async def _open(self) -> None:
        self._deployment.migrate()
        await self._stage.client.open()
        for work in self._workloads:
            await self._database.write(work.install)
        await self._database.write(lambda tx: audit.install(tx, self._tables))
        if self._ablation.prepare is not None:
            statement = self._ablation.prepare
            await self._database.write(lambda tx: tx.exec_driver_sql(statement))

    def _choose_faults(self) -> None:
        """Draw which faults this seed has: a part of all, so that rare combinations come sooner."""
        draw = self._loop.random("swarm")
        faults = self._deployment.faults
        faults.before = draw.choice((0, 0, 0.02, 0.1))
        faults.after = draw.choice((0, 0, 0.02, 0.1))
        faults.slow = draw.choice((0, 0.05, 0.2))
        faults.death = draw.choice((0, 0.005, 0.02))
        trouble = self._stage.trouble
        trouble.fails = draw.choice((0, 0.1, 0.4))
        trouble.defers = draw.choice((0, 0.1, 0.3))
        trouble.hangs = draw.choice((0, 0, 0.05))
        for process in self._deployment.processes.values():
            process.host.skew_s = draw.choice((0, 0, draw.uniform(-30, 30)))
        self._loop.note(
            f"faults: store {faults.before}/{faults.after}/{faults.slow}/{faults.death}, provider "
            f"{trouble.fails}/{trouble.defers}/{trouble.hangs}"
        )

    async def _nemesis(self) -> None:
        """Crash, stall and stop workers, and send false hints."""
        draw = self._loop.random("nemesis")
        clock = self._stage.client.runtime.clock
        while self._loop.time() < FIRST_ACT_S:
            await clock.sleep(draw.expovariate(1 / 40))
            self._crashes += self._deployment.launch_crashed()
            name = f"worker-{draw.randrange(WORKERS)}"
            process = self._deployment.processes[name]
            chance = draw.random()
            if chance < 0.35:
                self._crashes += 1
                self._deployment.launch(name)
            elif chance < 0.6:
                process.host.pause()
                await clock.sleep(draw.uniform(1, 3 * WORKER.lease_s))
                process.host.resume()
            elif chance < 0.7:
                await self._stop(process)
                self._deployment.launch(name)
            else:
                # Hints may come twice, or without a reason.
                topics = (CONTROL, SWEEP, OUTBOX, SCHEDULES, *(lane_topic(lane) for lane in Lane))
                await self._deployment.signal.announce(draw.choice(topics))

    async def _stop(self, process: Process) -> None:
        """Stop a worker gracefully; it may die meanwhile, and then the stop never ends."""
        stopping = process.host.spawn(process.stop())
        for _ in range(60):
            if stopping.done() or process.host.crashed:
                return
            await self._stage.client.runtime.clock.sleep(1)

    # ---- the last act --------------------------------------------------------------------------

    def _calm(self) -> None:
        self._loop.note("calm")
        self._deployment.faults.off()
        self._stage.trouble.off()
        self._crashes += self._deployment.launch_crashed()

    async def _last_act(self) -> None:
        """Wait until all work has ended."""
        ends = self._loop.time() + LAST_ACT_S
        while self._loop.time() < ends:
            ended = [await work.wind_up() for work in self._workloads]
            if all(ended):
                break
            await self._stage.client.runtime.clock.sleep(30)

    def _verdict(self, violations: list[str]) -> Verdict:
        return Verdict(
            seed=self._seed,
            trace_hash=self._loop.trace_hash(),
            counts=dict(sum((Counter(work.counts()) for work in self._workloads), Counter())),
            crashes=self._crashes,
            virtual_s=self._loop.time(),
            violations=violations,
            report=self._loop.report(),
        )
