"""Two applications with different syncs on one database: neither is in the other's way."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from headgate import App, Chunk, Context, JobState, Lane, RetryPolicy, Sync, Transient
from headgate.model import change
from tests.flow.sources import taking
from tests.worlds import START, ScriptedSource, World, kinds, lanes, with_dying_workers


def sync(name: str, *, takes_s: float = 1.0) -> Sync:
    return Sync(name=name, source=ScriptedSource(taking(takes_s), name), lane=Lane.COLD)


async def submit(app: App, sync: str, user: str) -> str:
    return (await app.jobs.submit(sync, user_id=user)).job.id


@with_dying_workers
async def test_each_runs_its_own_jobs_at_once(world: World) -> None:
    # Given two applications, each with a worker, and a job for each submitted by itself
    notes, steps = await world.app(sync("notes")), await world.app(sync("steps"))
    jobs = [await submit(notes, "notes", "ada"), await submit(steps, "steps", "ada")]
    for app in (notes, steps):
        await app.supervisor().start()

    # When a few seconds have passed, then both are done, each claimed once
    await world.clock.sleep(5)
    done = [await notes.jobs.get(job) for job in jobs]
    assert [(job.state, job.token) for job in done] == [(JobState.SUCCESS, 1)] * 2
    assert [job.worker for job in done] == [notes.name, steps.name]


@with_dying_workers
async def test_a_job_says_that_no_running_worker_can_run_it(world: World) -> None:
    # Given a job, and nobody who works
    notes, steps = await world.app(sync("notes")), await world.app(sync("steps"))
    job = await notes.jobs.get(await submit(notes, "notes", "ada"))
    view = await steps.jobs.view(job)
    assert view.message == (
        "Waiting for a worker: no worker that can do this is running. It starts as soon as one is."
    )
    assert view.operator is not None and view.operator.waits_for == "no worker is running"

    # When a worker comes that has other syncs, then it says so, whoever is asked
    worker = steps.supervisor()
    await worker.start()
    await world.clock.sleep(1)
    other = await notes.jobs.view(job)
    assert other.message == view.message
    assert other.operator is not None
    assert other.operator.waits_for == "no running worker has the sync 'notes'"
    assert other == await steps.jobs.view(job)

    # And when that worker stops, nobody works again
    await worker.stop()
    assert await notes.jobs.view(job) == view

    # And when the right one comes, the job is done
    await notes.supervisor().start()
    assert (await world.until(notes, job.id)).state is JobState.SUCCESS


@with_dying_workers
async def test_a_backlog_of_one_does_not_change_the_order_of_the_other(world: World) -> None:
    # Given an application that has fallen behind, in its first turn
    settings = lanes(cold=1, slice_s=0)
    behind = await world.app(sync("behind"))
    for number in range(20):
        await submit(behind, "behind", f"waiting-{number}")
    # And another, whose heavy user has many jobs, and whose others keep coming
    names = ("notes", "letters", "postcards")
    app = await world.app(*(sync(name, takes_s=10) for name in names), worker=settings)
    heavy = [await submit(app, name, "heavy") for name in names]
    await app.supervisor().start()
    for number in range(20):
        await submit(app, "notes", f"light-{number}")
        await world.clock.sleep(10)

    # Then the heavy user has been served between them, and not after them all
    ended = [(await app.jobs.get(job)).finished_at for job in heavy]
    assert all(at is not None and (at - START).total_seconds() < 100 for at in ended)


def broken(name: str, provider: str, *, works: Callable[[], bool]) -> Sync:
    async def read(ctx: Context) -> Chunk:
        if not works():
            raise Transient("503")
        return Chunk()

    policy = RetryPolicy(attempts_max=1, cooldown_s=60, crashes_max=3)
    return Sync(name=name, source=ScriptedSource(read, provider), lane=Lane.COLD, retry=policy)


@pytest.mark.parametrize("dies", ["paused", "probing"])
@with_dying_workers
async def test_a_provider_is_tried_by_whoever_lives(world: World, dies: str) -> None:
    # Given two applications that are shut out by one provider, the first of them longer
    works: list[bool] = []
    gone = await world.app(broken("gone", "p", works=lambda: bool(works)))
    left = await world.app(broken("left", "p", works=lambda: bool(works)))
    host = world.loop.host("gone")
    supervisor = gone.supervisor()
    await host.spawn(supervisor.start())
    first = await submit(gone, "gone", "ada")
    await world.until(gone, first, JobState.PAUSED)
    second = await submit(left, "left", "ada")
    await left.supervisor().start()
    await world.until(left, second, JobState.PAUSED)

    # When the workers of the first die, before their probe or with it in line
    if dies == "probing":
        probe = change.thaw(await gone.jobs.get(first), probe=True)
        host.crash()
        await gone._runtime.jobs.settle(probe)
    else:
        host.crash()
    works.append(True)

    # Then the other does not wait for them
    done = await world.until(left, second, limit_s=3600)
    assert done.state is JobState.SUCCESS
    if dies == "paused":
        # What only they can run was never chosen to try it.
        assert "thawed" not in kinds(await left.jobs.events(first))


@with_dying_workers
async def test_another_applications_job_is_rescued_and_never_given_up(world: World) -> None:
    # Given a job whose worker has died again and again, and only a stranger to look after it
    gone, stranger = await world.app(sync("gone")), await world.app(sync("other"))
    job_id = await submit(gone, "gone", "ada")
    await stranger.supervisor().start()
    for crashes in range(1, 12):
        lease = timedelta(seconds=30)
        [job] = (await gone._runtime.jobs.claim(Lane.COLD, worker="w", limit=1, lease=lease)).jobs
        await world.clock.sleep(120)
        job = await gone.jobs.get(job_id)

        # Then it is put back each time, for its own workers to judge
        assert (job.state, job.crashes) == (JobState.PENDING, crashes)


@with_dying_workers
async def test_a_job_whose_only_worker_died_says_that_nobody_works(world: World) -> None:
    app = await world.app(sync("notes", takes_s=1e6))
    host = world.loop.host("worker")
    await host.spawn(app.supervisor().start())
    job_id = await submit(app, "notes", "ada")
    await world.until(app, job_id, JobState.RUNNING)
    assert [worker.id for worker in await app._runtime.workers.live_workers()] == [app.name]
    host.crash()
    await world.clock.sleep(300)

    assert await app._runtime.workers.live_workers() == []
    assert (await app.jobs.status(job_id)).message == (
        "Interrupted: the worker is gone, and no other that can do this is running. "
        "It goes on as soon as one is."
    )
