"""Starting and stopping a worker: it is known at once, and nothing that it has begun is lost."""

import asyncio
from typing import Any

import pytest

from headgate import App, Chunk, Context, JobState, Reason, Sync, WorkerSettings
from headgate.base.errors import StoreUnavailable
from headgate.types import Job
from tests.worlds import ScriptedSource, World, kinds, with_world


def pages(count: int, seconds: float) -> ScriptedSource:
    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(seconds)
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        return Chunk(cursor=page + 1 if page + 1 < count else None)

    return ScriptedSource(read)


async def submit(app: App) -> Job:
    return (await app.jobs.submit("pages", user_id="ada")).job


async def started(world: World, source: ScriptedSource, *, grace_s: float) -> tuple[App, Job]:
    app = await world.app(Sync(name="pages", source=source), worker=WorkerSettings(grace_s=grace_s))
    return app, await submit(app)


@with_world
async def test_a_worker_is_known_as_soon_as_it_has_started(world: World) -> None:
    app, job = await started(world, pages(5, seconds=10), grace_s=20)
    assert "no worker that can do this" in (await app.jobs.status(job.id)).message
    worker = app.supervisor()

    await worker.start()

    assert [each.id for each in await app.workers()] == [app.name]
    assert "no worker" not in (await app.jobs.status(job.id)).message
    await worker.stop()
    assert await app.workers() == []


@with_world
async def test_a_worker_starts_though_the_store_is_away_and_is_known_when_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, job = await started(world, pages(1, seconds=1), grace_s=20)
    refresh, left = app._runtime.workers.refresh_worker, [1]

    async def refreshed(*args: Any, **named: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise StoreUnavailable
        await refresh(*args, **named)

    monkeypatch.setattr(app._runtime.workers, "refresh_worker", refreshed)

    await app.supervisor().start()

    assert await app.workers() == []
    await world.clock.sleep(1)
    assert len(await app.workers()) == 1
    assert (await world.until(app, job.id)).state is JobState.SUCCESS


@with_world
async def test_a_chunk_that_ends_within_the_grace_period_is_finished(world: World) -> None:
    source = pages(5, seconds=10)
    app, job = await started(world, source, grace_s=20)
    worker = app.supervisor()
    await worker.start()
    await world.clock.sleep(3)

    # When it is told to stop in the middle of the first page
    await worker.stop()

    # Then that page is committed, the next is not begun, and the job waits for anybody
    assert world.clock.monotonic() < 11
    job = await app.jobs.get(job.id)
    assert (job.state, job.steps) == (JobState.PENDING, 1)
    assert len(source.calls) == 1
    assert job.summary.crashes == 0

    # And another worker takes it at once
    await app.supervisor().start()
    assert (await world.until(app, job.id)).state is JobState.SUCCESS


@pytest.mark.fault(36)
@with_world
async def test_a_chunk_that_takes_longer_is_handed_back_untouched(world: World) -> None:
    app, job = await started(world, pages(2, seconds=100), grace_s=20)
    worker = app.supervisor()
    await worker.start()
    await world.clock.sleep(3)
    await worker.stop()
    assert 23 <= world.clock.monotonic() < 24
    job = await app.jobs.get(job.id)
    assert (job.state, job.reason) == (JobState.PENDING, Reason.RELEASED)
    assert (job.steps, job.attempts, job.crashes, job.summary.errors) == (0, 0, 0, 0)
    assert job.token == 2
    assert kinds(await app.jobs.events(job.id)) == ["submitted", "released"]


@with_world
async def test_a_second_request_hands_back_at_once(world: World) -> None:
    app, job = await started(world, pages(2, seconds=100), grace_s=20)
    worker = app.supervisor()
    running = asyncio.create_task(worker.run_until_stopped())
    await world.clock.sleep(3)
    worker.request_stop()
    await world.clock.sleep(2)
    assert not running.done()
    worker.request_stop()
    await running
    assert world.clock.monotonic() < 6
    assert (await app.jobs.get(job.id)).reason is Reason.RELEASED


@with_world
async def test_a_source_that_does_not_let_go_is_left_to_its_lease(world: World) -> None:
    async def stubborn(ctx: Context) -> Chunk:
        try:
            await ctx.clock.sleep(50)
        except asyncio.CancelledError:
            await ctx.clock.sleep(500)
        return Chunk()

    source = ScriptedSource(stubborn)
    app, job = await started(world, source, grace_s=1)
    worker = app.supervisor()
    await worker.start()
    await world.clock.sleep(1)
    await worker.stop()
    assert world.clock.monotonic() < 8
    assert (await app.jobs.get(job.id)).state is JobState.RUNNING

    # Then another process rescues it
    other = await world.app(Sync(name="pages", source=pages(1, 0)))
    await other.supervisor().start()
    job = await world.until(other, job.id)
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 1)
    await world.clock.sleep(1000)


@with_world
async def test_stopping_twice_or_before_starting_is_fine(world: World) -> None:
    app = await world.app()
    worker = app.supervisor()
    await worker.stop()
    await worker.stop()
    worker = app.supervisor()
    await worker.start()
    await worker.stop()
    await worker.stop()

    never_began = app.supervisor()
    # What is not open cannot be written to.
    await app._database.close()

    await never_began.stop()
    await never_began.stop()
