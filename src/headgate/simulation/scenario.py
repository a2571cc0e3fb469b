"""One seeded run: work, people and faults, then calm, then the verdict.

The first act mixes everything: processes crash, stall and disagree on the time, the store and the
provider fail, people pause and cancel. In the last act nothing fails any more, and everything that
was acknowledged must come to an end. Same seed, same run, to the last step.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import date, timedelta
from pathlib import Path

import msgspec

from headgate.base.errors import ActiveJobExists, Conflict, StoreError
from headgate.flow import control
from headgate.flow.registry import Sync
from headgate.flow.submit import JobRequest, submit
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import WorkerSettings
from headgate.model.job import Job, Lane, Mode, Reprocess
from headgate.model.states import JOB, JobState
from headgate.policy.retry import RetryPolicy
from headgate.ports.signal import CONTROL, SWEEP, lane_topic
from headgate.simulation import audit
from headgate.simulation.deployment import Deployment, Process
from headgate.simulation.host import release_frozen
from headgate.simulation.invariants import judge, judge_arrivals
from headgate.simulation.loop import SimulationLoop
from headgate.simulation.provider import Ledger, SimulatedProvider, Trouble
from headgate.simulation.runner import run
from headgate.store.sql.sqlite import InlineSqliteDatabase
from headgate.store.sql.store import SqlStore

WORKERS = 3
USERS = 4
FIRST_ACT_S = 1200.0
#: In the last act everything must have ended by then: LIVE.
LAST_ACT_S = 3600.0
END = date(2025, 12, 31)

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


class Ablation(msgspec.Struct, frozen=True):
    """A safeguard switched off, to see that the simulation notices."""

    name: str
    #: Switches it off for as long as the context lasts.
    switch_off: Callable[[], AbstractContextManager[object]] = nullcontext
    #: Does something to the fresh database.
    prepare: str | None = None
    make_store: Callable[[InlineSqliteDatabase, Sequence[str]], SqlStore] = SqlStore


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to."""

    seed: int
    trace_hash: str
    jobs: int
    chunks: int
    crashes: int
    virtual_s: float
    violations: list[str]
    report: str


WHOLE = Ablation("nothing")


def play(seed: int, ablation: Ablation = WHOLE) -> Verdict:
    """Run one seed from beginning to end."""
    with tempfile.TemporaryDirectory(prefix="headgate-sim-") as folder, ablation.switch_off():
        try:
            return run(
                lambda loop: _Play(loop, Path(folder) / "sim.db", seed, ablation).perform(),
                seed=seed,
            )
        finally:
            release_frozen()


class _Play:
    def __init__(self, loop: SimulationLoop, file: Path, seed: int, ablation: Ablation) -> None:
        self._loop = loop
        self._seed = seed
        self._ablation = ablation
        self._trouble = Trouble()
        self._ledger = Ledger(loop.random("ledger"), self._trouble)
        provider = SimulatedProvider("provider", loop.random("provider"), self._trouble)
        self._provider = provider
        self._deployment = Deployment(
            loop,
            file,
            [
                Sync(name="kept", source=provider, retry=POLICY, chunk_s_max=60),
                Sync(
                    name="sent",
                    source=provider,
                    destination=self._ledger,
                    retry=POLICY,
                    chunk_s_max=60,
                ),
            ],
            worker=WORKER,
            make_store=ablation.make_store,
        )
        self._client: Process = self._deployment.client()
        self._acknowledged: dict[str, Job] = {}
        self._crashes = 0

    async def perform(self) -> Verdict:
        """Both acts, and the verdict."""
        await self._open()
        for number in range(WORKERS):
            self._deployment.launch(f"worker-{number}")
        self._choose_faults()
        async with asyncio.TaskGroup() as acting:
            for number in range(USERS):
                acting.create_task(self._person(number), name=f"person {number}")
            acting.create_task(self._nemesis(), name="nemesis")
        self._calm()
        await self._last_act()
        violations = await self._client.database.read(
            lambda tx: [
                *audit.findings(tx),
                *judge(tx, self._acknowledged, self._ledger),
                *judge_arrivals(tx, self._provider.early),
            ]
        )
        return self._verdict([*violations, *self._deployment.witness.findings])

    async def _open(self) -> None:
        self._deployment.migrate()
        await self._client.database.open()
        await self._client.database.write(audit.install)
        if self._ablation.prepare is not None:
            statement = self._ablation.prepare
            await self._client.database.write(lambda tx: tx.exec_driver_sql(statement))

    def _choose_faults(self) -> None:
        """Each seed suffers from a part of all there is: rare combinations come up sooner."""
        draw = self._loop.random("swarm")
        faults = self._deployment.faults
        faults.before = draw.choice((0, 0, 0.02, 0.1))
        faults.after = draw.choice((0, 0, 0.02, 0.1))
        faults.slow = draw.choice((0, 0.05, 0.2))
        faults.death = draw.choice((0, 0.005, 0.02))
        self._trouble.fails = draw.choice((0, 0.1, 0.4))
        self._trouble.defers = draw.choice((0, 0.1, 0.3))
        self._trouble.hangs = draw.choice((0, 0, 0.05))
        for process in self._deployment.processes.values():
            process.host.skew_s = draw.choice((0, 0, draw.uniform(-30, 30)))
        self._loop.note(
            f"faults: store {faults.before}/{faults.after}/{faults.slow}/{faults.death}, provider "
            f"{self._trouble.fails}/{self._trouble.defers}/{self._trouble.hangs}"
        )

    # ---- who acts ------------------------------------------------------------------------------

    async def _person(self, number: int) -> None:
        """Submits, looks, and now and then pauses, resumes, cancels or retries."""
        draw = self._loop.random(f"person {number}")
        while self._loop.time() < FIRST_ACT_S:
            await self._client.runtime.clock.sleep(draw.uniform(1, 120))
            with suppress(Conflict, StoreError):
                if draw.random() < 0.5 or not self._acknowledged:
                    await self._submit(draw.choice(("kept", "sent")), number, draw.random())
                else:
                    await self._command(draw.choice(sorted(self._acknowledged)), draw.random())

    async def _submit(self, sync: str, number: int, chance: float) -> None:
        history = chance < 0.6
        request = JobRequest(
            sync=sync,
            user_id=f"user-{number}",
            connection_id=f"connection-{int(chance * 1000) % 3}",
            mode=Mode.HISTORY if history else Mode.FULL,
            start=END - timedelta(days=int(chance * 17)) if history else None,
            end=END if history else None,
            # Mostly everything anew; now and then only what is missing.
            reprocess=Reprocess.ALL if chance < 0.4 else Reprocess.FAILED,
            key=f"{number}-{self._loop.time()}",
        )
        for _ in range(3):
            # As a client does that lost the answer: the same request under the same key.
            try:
                job = (await submit(self._client.runtime, request)).job
            except ActiveJobExists:
                return
            except StoreError:
                continue
            self._acknowledged[job.id] = job
            return

    async def _command(self, job_id: str, chance: float) -> None:
        rt = self._client.runtime
        if chance < 0.3:
            await control.pause(rt, job_id)
        elif chance < 0.6:
            await control.resume(rt, job_id)
        elif chance < 0.85:
            await control.retry_now(rt, job_id)
        else:
            await control.cancel(rt, job_id, deadline=timedelta(seconds=10))

    async def _nemesis(self) -> None:
        """Crashes, stalls, stops and confuses the workers."""
        draw = self._loop.random("nemesis")
        clock = self._client.runtime.clock
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
                # Hints may come twice, or for nothing.
                topics = (CONTROL, SWEEP, *(lane_topic(lane) for lane in Lane))
                await self._deployment.signal.announce(draw.choice(topics))

    async def _stop(self, process: Process) -> None:
        """Stop a worker in peace; it may die on the way, and then nobody answers."""
        stopping = process.host.spawn(process.stop())
        for _ in range(60):
            if stopping.done() or process.host.crashed:
                return
            await self._client.runtime.clock.sleep(1)

    # ---- the last act --------------------------------------------------------------------------

    def _calm(self) -> None:
        self._loop.note("calm")
        self._deployment.faults.off()
        self._trouble.off()
        self._crashes += self._deployment.launch_crashed()

    async def _last_act(self) -> None:
        """Resume what people paused, then wait for everything to end."""
        rt = self._client.runtime
        ends = self._loop.time() + LAST_ACT_S
        while self._loop.time() < ends:
            jobs = [await rt.store.get(job_id) for job_id in sorted(self._acknowledged)]
            if all(job.state in JOB.terminal for job in jobs):
                break
            for job in jobs:
                if job.hold or job.state is JobState.PAUSED:
                    with suppress(Conflict):
                        await control.resume(rt, job.id)
            await rt.clock.sleep(30)

    def _verdict(self, violations: list[str]) -> Verdict:
        return Verdict(
            seed=self._seed,
            trace_hash=self._loop.trace_hash(),
            jobs=len(self._acknowledged),
            chunks=len(self._ledger.accepted),
            crashes=self._crashes,
            virtual_s=self._loop.time(),
            violations=violations,
            report=self._loop.report(),
        )
