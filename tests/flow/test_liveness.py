"""Workers that die: others have their claims within seconds; an idle worker asks for nothing."""

from collections.abc import Collection, Sequence
from datetime import timedelta

import pytest

from headgate import JobState, Malformed, RetryPolicy, Sync
from headgate.loops.liveness import LOOK_EVERY_S
from headgate.ports.jobs.store import PrunedJobs
from headgate.ports.signal import CONTROL
from tests.flow.sources import raising, taking
from tests.worlds import ScriptedSource, World, lanes, with_dying_workers


class Locks:
    """The locks of a world's workers; those in `dead` are free."""

    def __init__(self, *, held: bool = True) -> None:
        self.held = held
        self.workers: list[str] = []
        self.dead: list[str] = []
        self.looks: list[Sequence[str]] = []

    async def hold(self, worker: str) -> None:
        self.workers.append(worker)

    async def release(self) -> None:
        pass

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        self.looks.append(workers)
        return [each for each in workers if each in self.dead]


async def kill_at_work(world: World, locks: Locks) -> tuple[float, float, int]:
    """Kill one of two workers in the middle of a chunk; when it died, when the job ended, crashes.

    The second worker is told of nothing and has seen nothing for an hour.
    """
    world._signal.liveness = locks

    sync = Sync(name="slow", source=ScriptedSource(taking(10)))
    first, second = await world.app(sync), await world.app(sync)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    submitted = await first.jobs.submit("slow", user_id="ada")
    await world.clock.sleep(1)
    await second.supervisor().start()
    await world.clock.sleep(4)
    host.crash()
    locks.dead += locks.workers[:1]
    died_s = world.clock.monotonic()
    job = await world.until(second, submitted.job.id)
    assert job.state is JobState.SUCCESS
    return died_s, world.clock.monotonic(), job.summary.crashes


@with_dying_workers
async def test_the_job_of_a_worker_that_died_goes_on_within_seconds(world: World) -> None:
    died_s, ended_s, crashes = await kill_at_work(world, Locks())

    # A look, a sweep, and the whole chunk again.
    assert ended_s - died_s < LOOK_EVERY_S + 10 + 1
    assert crashes == 1


@with_dying_workers
async def test_a_worker_without_a_lock_is_not_judged(world: World) -> None:
    locks = Locks(held=False)
    died_s, ended_s, crashes = await kill_at_work(world, locks)

    # Its lease of a minute had to end.
    assert ended_s - died_s > 50
    assert crashes == 1
    assert set(map(tuple, locks.looks)) == {()}


@with_dying_workers
async def test_an_idle_worker_does_not_look_until_there_may_be_work(world: World) -> None:
    # Given a worker that has been idle for a while
    world._signal.liveness = locks = Locks()
    await world.at_work()
    await world.clock.sleep(1000)
    looked = len(locks.looks)

    # When nothing happens, then it does not look
    await world.clock.sleep(3000)
    assert len(locks.looks) == looked

    # When there are many hints of work, then it looks at once, and after that at intervals
    for _ in range(100):
        await world._signal.announce(CONTROL)
        await world.clock.sleep(0.01)
    assert len(locks.looks) == looked + 1
    await world.clock.sleep(2 * LOOK_EVERY_S)
    assert len(locks.looks) == looked + 3


@with_dying_workers
async def test_a_worker_looks_at_once_when_an_outage_is_over(world: World) -> None:
    # Given a worker that could not look for minutes, so that it tries once a minute
    world._signal.liveness = locks = Locks()
    await world.at_work()
    find_dead, tries = locks.find_dead, 0

    async def fail(workers: Sequence[str]) -> Collection[str]:
        nonlocal tries
        tries += 1
        raise ConnectionError("not connected")

    locks.find_dead = fail  # type: ignore[method-assign]
    await world.clock.sleep(300)
    assert 5 < tries < 12

    # When the connection is back, which nudges everybody, then it looks at once
    locks.find_dead = find_dead  # type: ignore[method-assign]
    looked = len(locks.looks)
    await world._signal.announce(CONTROL)
    await world.clock.sleep(0.1)
    assert len(locks.looks) == looked + 1


@pytest.mark.parametrize(("lease_s", "prunes"), [(60, False), (20, False), (60, True)])
@with_dying_workers
async def test_a_worker_looks_as_long_as_a_sweep_finds_claims(
    world: World, monkeypatch: pytest.MonkeyPatch, lease_s: float, prunes: bool
) -> None:
    # Given a job that keeps another worker busy, longer than a hint of work counts
    world._signal.liveness = locks = Locks()

    async def prune(**_: object) -> PrunedJobs:
        return PrunedJobs(count=int(prunes), after="job_1" if prunes else None)

    busy = await world.app(Sync(name="slow", source=ScriptedSource(taking(110))))
    # Whose own lease may be shorter, and who may have old jobs without end to delete
    idle = await world.app(worker=lanes(lease_s=lease_s, keep_jobs=timedelta(days=1)))
    monkeypatch.setattr(idle._runtime.jobs, "prune_jobs", prune)
    await busy.jobs.submit("slow", user_id="ada")
    await world.loop.host("busy").spawn(busy.supervisor().start())
    await idle.supervisor().start()
    await world.clock.sleep(70)
    looked = len(locks.looks)

    # When more time passes, then both still look, each at its intervals
    await world.clock.sleep(10 * LOOK_EVERY_S)
    assert len(locks.looks) - looked == 20


@with_dying_workers
async def test_a_worker_does_not_look_for_a_job_that_is_paused_for_hours(world: World) -> None:
    # Given a job that is paused, because its source failed
    world._signal.liveness = locks = Locks()

    source = ScriptedSource(raising(Malformed, "no JSON"))
    retry = RetryPolicy(errors_max=0, cooldown_s=5 * 3600)
    app = await world.app(Sync(name="broken", source=source, retry=retry))
    job = (await app.jobs.submit("broken", user_id="ada")).job
    await app.supervisor().start()
    await world.until(app, job.id, JobState.PAUSED)
    await world.clock.sleep(1000)
    looked = len(locks.looks)

    # When hours pass, then nobody looks
    await world.clock.sleep(3600)
    assert (await app.jobs.get(job.id)).state is JobState.PAUSED
    assert len(locks.looks) == looked


@with_dying_workers
async def test_a_worker_looks_when_a_job_comes_due_for_others(world: World) -> None:
    # Given two workers that have been idle for a while, and a job for later
    world._signal.liveness = locks = Locks()

    sync = Sync(name="slow", source=ScriptedSource(taking(10)))
    first, second = await world.app(sync), await world.app(sync)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    submitted = await first.jobs.submit("slow", user_id="ada", delay_s=1000.0)
    await world.clock.sleep(10)
    await second.supervisor().start()
    await world.clock.sleep(985)
    looked = len(locks.looks)
    await world.clock.sleep(4)
    assert len(locks.looks) == looked

    # When the one that has claimed it dies a moment later
    await world.clock.sleep(2)
    host.crash()
    locks.dead += locks.workers[:1]
    died_s = world.clock.monotonic()
    job = await world.until(second, submitted.job.id)

    # Then the other finds it dead by its next look
    assert job.summary.crashes == 1
    assert world.clock.monotonic() - died_s < LOOK_EVERY_S + 10 + 1
