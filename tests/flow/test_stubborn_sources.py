"""Sources that go on when their time is over: they lose their job."""

import asyncio
from contextlib import suppress
from datetime import date, timedelta

import pytest

from headgate import App, Batch, Chunk, Context, JobState, Record, RetryPolicy, Sync
from headgate.errors import StoreUnavailable
from headgate.flow.leases.settle import SETTLE_RESTS_S
from headgate.types import Job
from tests.worlds import ScriptedSource, World, with_world

DAY = date(2025, 12, 24)


class Shelf:
    """A destination that keeps every record it is sent."""

    name = "shelf"

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def write(self, batch: Batch) -> None:
        self.records += batch.records


async def submit(app: App) -> Job:
    asked = await app.jobs.submit(
        "history",
        user_id="ada",
        mode="history",
        start_date=DAY,
        end_date=DAY,
    )
    return asked.job


async def swallow_once(ctx: Context) -> None:
    """Wait for two hours, and go on when it is cancelled as if nothing had happened."""
    with suppress(asyncio.CancelledError):
        await ctx.clock.sleep(3600)
    await ctx.clock.sleep(3600)


@with_world
async def test_a_source_that_swallows_its_cancellation_loses_its_job(world: World) -> None:
    # Given a source that goes on for an hour after its time is over, and then brings a record
    async def read(ctx: Context) -> Chunk:
        first = len(source.calls) == 1
        if first:
            await swallow_once(ctx)
        return Chunk(records=[Record("late" if first else "in time", {})])

    source, shelf = ScriptedSource(read), Shelf()
    sync = Sync(name="history", source=source, destination=shelf, chunk_s_max=45)
    app = await world.app(sync)
    job = await submit(app)
    await app.supervisor().start()

    # When its time is over, the job is not its any more, and it is tried again
    await world.clock.sleep(50)
    assert "longer than 45 s" in ((await app.jobs.get(job.id)).error or "")
    job = await world.until(app, job.id)
    assert (job.state, job.summary.errors, job.summary.crashes) == (JobState.SUCCESS, 1, 0)
    story = await app.jobs.events(job.id)

    # Then what the first brings in the end is written nowhere
    await world.clock.sleep(2 * 3600)
    assert [record.key for record in shelf.records] == ["in time"]
    assert await app.jobs.events(job.id) == story


@with_world
async def test_while_the_database_is_away_the_job_is_left_to_its_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(ctx: Context) -> Chunk:
        if len(source.calls) == 1:
            await swallow_once(ctx)
        return Chunk()

    source = ScriptedSource(read)
    app = await world.app(Sync(name="history", source=source, chunk_s_max=45))
    job = await submit(app)
    await app.supervisor().start()
    await world.clock.sleep(1)

    # Given a store that refuses every settle for longer than anybody asks it
    async def settle(*_: object) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(app._runtime.jobs, "settle", settle)
        await world.clock.sleep(50 + sum(SETTLE_RESTS_S))

    # Then the lease runs out in spite of the heartbeat, and the job is rescued and done
    job = await world.until(app, job.id)
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 1)


@with_world
async def test_a_day_is_not_given_up_for_a_source_that_holds_on_to_its_worker(world: World) -> None:
    # Given a source that does not end in an outage, and a policy that gives up at once
    async def read(ctx: Context) -> Chunk:
        if world.clock.now() < began + timedelta(hours=5):
            await swallow_once(ctx)
        return Chunk(records=[Record("held", {})])

    began, source = world.clock.now(), ScriptedSource(read)
    retry = RetryPolicy(errors_max=0, pauses_max=0)
    sync = Sync(name="history", source=source, chunk_s_max=45, retry=retry)
    app = await world.app(sync)
    job = await submit(app)
    await app.supervisor().start()

    # Then its job is paused again and again, and has no gap in the end
    job = await world.until(app, job.id)
    assert (job.state, job.summary.days_failed) == (JobState.SUCCESS, 0)
    assert job.summary.errors > 1
    assert len(await app.records.list("history", "ada")) == 1
