"""Lanes: live work is not delayed by backfill, users share a lane, an idle worker is silent."""

from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import event

from headgate import App, Chunk, Context, JobState, RateLimited, Sync
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.types import Job
from tests.flow.sources import taking
from tests.worlds import ScriptedSource, World, as_test, in_world, lanes, with_world


def busy(seconds: float) -> ScriptedSource:
    return ScriptedSource(taking(seconds))


async def submit(
    app: App, sync: str, user: str, number: int = 0, *, lane: str | None = None, delay: float = 0
) -> Job:
    submitted = await app.jobs.submit(sync, user_id=f"{user}-{number}", lane=lane, delay_s=delay)
    return submitted.job


@pytest.mark.fault(39)
@with_world
async def test_a_full_cold_lane_does_not_delay_hot_work(world: World) -> None:
    # Given hundreds of cold jobs of a minute each, all cold slots taken
    app = await world.app(Sync(name="backfill", source=busy(60)), Sync(name="live", source=busy(1)))
    for number in range(300):
        await submit(app, "backfill", "ada", number, lane="cold")
    await app.supervisor().start()
    await world.clock.sleep(90)

    # When live work comes, of the very same user
    began = world.clock.monotonic()
    job = await submit(app, "live", "ada")
    await world.until(app, job.id)

    # Then it took as long as it takes by itself
    assert world.clock.monotonic() - began < 1.2
    running = await app.jobs.list(sync="backfill", states=[JobState.RUNNING])
    assert len(running) == 4


@as_test(in_world, seed=3)
async def test_concurrency_is_never_exceeded(world: World) -> None:
    now_running = most = 0

    async def read(ctx: Context) -> Chunk:
        nonlocal now_running, most
        now_running += 1
        most = max(most, now_running)
        await ctx.clock.sleep(1)
        now_running -= 1
        return Chunk()

    app = await world.at_work(Sync(name="work", source=ScriptedSource(read)), worker=lanes(hot=7))
    jobs = [await submit(app, "work", f"u{number % 5}", number) for number in range(60)]
    for job in jobs:
        await world.until(app, job.id)
    assert most == 7


@with_world
async def test_a_delayed_job_starts_when_it_is_due_and_not_before(world: World) -> None:
    app = await world.at_work(Sync(name="work", source=busy(0)))
    await world.clock.sleep(1)
    job = await submit(app, "work", "ada", delay=3600)
    assert "Scheduled to start at 2026-01-01 01:00:01 UTC" in (await app.jobs.view(job)).message
    job = await world.until(app, job.id)
    assert job.started_at is not None
    late = (job.started_at - job.created_at).total_seconds() - 3600
    assert 0 <= late < 0.5


def count_statements(app: App) -> Counter[str]:
    """Counts what the application sends to its database."""
    database = app._database
    assert isinstance(database, InlineSqliteDatabase)
    counted: Counter[str] = Counter()

    @event.listens_for(database._engine, "before_cursor_execute")
    @event.listens_for(database._reading, "before_cursor_execute")
    def count(conn: object, cursor: object, statement: str, *rest: object) -> None:
        counted[statement.split()[0]] += 1

    return counted


@with_world
async def test_an_idle_worker_sends_almost_nothing_to_the_database(world: World) -> None:
    # Given a worker with nothing to do but one job far in the future
    app = await world.app(Sync(name="work", source=busy(0)))
    await submit(app, "work", "ada", delay=100 * 24 * 3600)
    await app.supervisor().start()
    await world.clock.sleep(60)
    counted = count_statements(app)

    # When an hour passes
    await world.clock.sleep(3600)

    # Then it sent fewer than ten statements a minute
    assert 0 < counted.total() / 60 < 10


@with_world
async def test_a_deferred_job_costs_nothing_while_it_waits(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        if len(source.calls) == 1:
            raise RateLimited(timedelta(hours=2))
        return Chunk()

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="work", source=source))
    job = await submit(app, "work", "ada")
    await world.clock.sleep(60)
    counted = count_statements(app)
    await world.clock.sleep(3600)
    assert counted.total() / 60 < 10
    assert (await world.until(app, job.id)).state is JobState.SUCCESS
