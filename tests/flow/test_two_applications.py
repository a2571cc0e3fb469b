"""Two applications with different syncs on one database: neither is in the other's way."""

from pathlib import Path

from headgate import App, Chunk, Context, JobState, Lane, Sync
from tests.worlds import START, ScriptedSource, World, in_world, lanes


def sync(name: str, *, takes_s: float = 1.0) -> Sync:
    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(takes_s)
        return Chunk()

    return Sync(name=name, source=ScriptedSource(read, name), lane=Lane.COLD)


async def submit(app: App, sync: str, user: str, number: int = 0) -> str:
    submitted = await app.jobs.submit(sync, user_id=user, connection_id=f"{user}-{number}")
    return submitted.job.id


def test_each_runs_its_own_jobs_at_once(tmp_path: Path) -> None:
    async def main(world: World) -> None:
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

    in_world(tmp_path, main)


def test_a_job_says_that_no_running_worker_can_run_it(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        # Given a job, and nobody who works
        notes, steps = await world.app(sync("notes")), await world.app(sync("steps"))
        job = await notes.jobs.get(await submit(notes, "notes", "ada"))
        nobody = "In line, but no worker is running: it goes on as soon as one is started."
        assert await steps.jobs.explain(job) == nobody

        # When a worker comes that has other syncs, then it says so, whoever is asked
        worker = steps.supervisor()
        await worker.start()
        await world.clock.sleep(1)
        assert "no running worker knows the sync 'notes'" in await notes.jobs.explain(job)
        assert await notes.jobs.explain(job) == await steps.jobs.explain(job)

        # And when that worker stops, nobody works again
        await worker.stop()
        assert await notes.jobs.explain(job) == nobody

        # And when the right one comes, the job is done
        await notes.supervisor().start()
        assert (await world.until(notes, job.id)).state is JobState.SUCCESS

    in_world(tmp_path, main)


def test_a_worker_that_was_killed_counts_as_gone_after_a_while(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        app = await world.app(sync("notes"))
        host = world.loop.host("worker")
        await host.spawn(app.supervisor().start())
        await world.clock.sleep(1)
        assert [worker.id for worker in await app.store.live_workers()] == [app.name]

        host.crash()
        await world.clock.sleep(300)

        assert await app.store.live_workers() == []

    in_world(tmp_path, main)


def test_a_backlog_of_one_does_not_change_the_order_of_the_other(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        # Given an application that has fallen behind, in its first turn
        settings = lanes(cold=1, slice_s=0)
        behind = await world.app(sync("behind"))
        for number in range(20):
            await submit(behind, "behind", f"waiting-{number}")
        # And another, whose heavy user has many jobs, and whose others keep coming
        app = await world.app(sync("notes", takes_s=10), worker=settings)
        heavy = [await submit(app, "notes", "heavy", number) for number in range(3)]
        await app.supervisor().start()
        for number in range(20):
            await submit(app, "notes", f"light-{number}")
            await world.clock.sleep(10)

        # Then the heavy user has been served between them, and not after them all
        ended = [(await app.jobs.get(job)).finished_at for job in heavy]
        assert all(at is not None and (at - START).total_seconds() < 100 for at in ended)

    in_world(tmp_path, main)
