"""Lost workers, zombies, lost answers from the store: nothing is lost, nothing counts twice."""

from datetime import date, timedelta
from typing import Any

import pytest

from headgate import App, Batch, Chunk, Context, JobState, Reason, Record, Sync
from headgate.errors import StoreError, StoreUnavailable
from headgate.loops import pruner
from headgate.model.change import JobChange
from headgate.model.states import JOB, JobEdge
from headgate.ports.jobs.store import ChunkWork
from headgate.types import Job
from tests.flow.sources import nothing, taking
from tests.worlds import ScriptedSource, World, kinds, lanes, with_dying_workers

DAY = date(2025, 12, 24)


class Ledger:
    """A destination that honours keys, and counts what it was sent."""

    name = "ledger"

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.accepted: dict[str, Batch] = {}

    async def write(self, batch: Batch) -> None:
        self.sent.append(batch.key)
        self.accepted.setdefault(batch.key, batch)


async def slow_day(ctx: Context) -> Chunk:
    await ctx.clock.sleep(10)
    return Chunk(records=[Record(str(ctx.day), {})])


async def submit(app: App, days: int = 3) -> Job:
    submitted = await app.jobs.submit(
        "history",
        user_id="ada",
        mode="history",
        start_date=DAY - timedelta(days=days - 1),
        end_date=DAY,
    )
    return submitted.job


@pytest.mark.fault(2)
@with_dying_workers
async def test_a_crashed_workers_job_is_rescued_and_its_chunk_repeated(world: World) -> None:
    # Given a worker that dies in the middle of the second day, after it wrote to the ledger
    ledger = Ledger()
    sync = Sync(name="history", source=ScriptedSource(slow_day), destination=ledger)
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first)
    host = world.loop.host("first")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(15)
    assert (await second.jobs.get(job.id)).steps == 1
    host.crash()

    # When another worker is there
    await second.supervisor().start()
    job = await world.until(second, job.id)

    # Then the job was finished from where it was; a crash is a crash, not an error
    assert job.state is JobState.SUCCESS
    assert (job.summary.crashes, job.summary.errors) == (1, 0)
    assert sorted(ledger.accepted) == [f"{job.id}:{step}" for step in range(3)]
    story = kinds(await second.jobs.events(job.id))
    assert story == ["submitted", "chunk", "rescued", "chunk", "succeeded"]


@pytest.mark.fault(4)
@with_dying_workers
async def test_a_zombie_is_refused_everything_after_its_job_was_rescued(world: World) -> None:
    # Given a worker that stands still for two leases in the middle of a chunk
    sync = Sync(name="history", source=ScriptedSource(slow_day))
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first)
    host = world.loop.host("zombie")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(15)
    host.pause()

    # When another worker has finished the job and the first wakes up
    await second.supervisor().start()
    await world.until(second, job.id)
    finished = await second.jobs.get(job.id)
    story = await second.jobs.events(job.id)
    host.resume()
    await world.clock.sleep(200)

    # Then nothing it did counted
    assert await second.jobs.get(job.id) == finished
    assert await second.jobs.events(job.id) == story
    assert finished.summary.chunks == 3


@pytest.mark.fault(4)
@with_dying_workers
async def test_a_worker_that_lost_its_lease_writes_nothing_to_a_destination(world: World) -> None:
    # Given a source that blocks its process, heartbeat and all, for two leases
    blocked = world.loop.host("blocked")

    async def read(ctx: Context) -> Chunk:
        if len(source.calls) == 1:
            blocked.pause()
            await ctx.clock.sleep(0)
        return Chunk(records=[Record(str(ctx.day), {})])

    ledger, source = Ledger(), ScriptedSource(read)
    sync = Sync(name="history", source=source, destination=ledger)
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first, days=1)
    await blocked.spawn(first.supervisor().start())
    await world.clock.sleep(15)

    # When another worker has done the job and the process goes on
    await second.supervisor().start()
    job = await world.until(second, job.id)
    assert (job.state, len(source.calls)) == (JobState.SUCCESS, 2)
    blocked.resume()
    await world.clock.sleep(200)

    # Then it finds out before it writes, and the destination is not asked twice
    assert ledger.sent == [f"{job.id}:0"]


@pytest.mark.fault(4)
@with_dying_workers
async def test_a_worker_that_gets_its_own_job_again_ends_what_it_did_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a first chunk longer than a lease, within its own time, and heartbeats that fail
    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(100 if len(source.calls) == 1 else 1)
        return Chunk(records=[Record(str(ctx.day), {})])

    async def extend(*_: object, **__: object) -> None:
        raise StoreUnavailable

    ledger, source = Ledger(), ScriptedSource(read)
    app = await world.app(Sync(name="history", source=source, destination=ledger))
    job = await submit(app, days=1)
    await app.supervisor().start()
    await world.clock.sleep(1)
    monkeypatch.setattr(app._runtime.jobs, "extend", extend)

    # When its lease ends, and the same worker claims the job again and finishes it
    job = await world.until(app, job.id)
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 1)
    assert world.loop.time() < 100
    assert app.measurements.lost_claims[JOB.name] == 1

    # Then what the first chunk brings in the end is not sent
    monkeypatch.undo()
    await world.clock.sleep(300)
    assert ledger.sent == [f"{job.id}:0"]


@with_dying_workers
async def test_a_worker_that_kept_its_lease_while_it_was_blocked_writes(world: World) -> None:
    # Given a process that stood still for longer than half of a lease, and nobody else
    blocked = world.loop.host("blocked")

    async def read(ctx: Context) -> Chunk:
        blocked.pause()
        await ctx.clock.sleep(0)
        return Chunk(records=[Record(str(ctx.day), {})])

    ledger = Ledger()
    sync = Sync(name="history", source=ScriptedSource(read), destination=ledger)
    app = await world.app(sync)
    job = await submit(app, days=1)
    await blocked.spawn(app.supervisor().start())
    await world.clock.sleep(45)
    blocked.resume()

    assert (await world.until(app, job.id)).state is JobState.SUCCESS
    assert ledger.sent == [f"{job.id}:0"]


@with_dying_workers
async def test_a_worker_that_lost_its_job_stops_reading_at_its_next_heartbeat(world: World) -> None:
    # Given a chunk that takes an hour, and a worker that stands still for two leases in it
    ended_s: list[float] = []

    async def read(ctx: Context) -> Chunk:
        try:
            await ctx.clock.sleep(3600 if len(source.calls) == 1 else 1)
        finally:
            ended_s.append(world.loop.time())
        return Chunk()

    source = ScriptedSource(read)
    sync = Sync(name="history", source=source, chunk_s_max=7200)
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first, days=1)
    host = world.loop.host("zombie")
    await host.spawn(first.supervisor().start())
    await world.clock.sleep(15)
    host.pause()
    await second.supervisor().start()
    await world.until(second, job.id)

    # When it wakes up, its heartbeat finds that another worker has the job
    woke_s = world.loop.time()
    host.resume()
    await world.clock.sleep(100)

    # Then it spends nothing more on it
    assert len(ended_s) == 2
    assert ended_s[-1] - woke_s <= 60 / 3 + 1


@with_dying_workers
async def test_a_chunk_that_takes_down_every_worker_ends_its_job(world: World) -> None:
    # Given a chunk that kills whoever reads it
    async def deadly(ctx: Context) -> Chunk:
        host = hosts[-1]
        await host.crash_here()
        raise AssertionError("unreachable")

    hosts: list[Any] = []
    sync = Sync(name="history", source=ScriptedSource(deadly))
    watcher = await world.app(sync)
    job = await submit(watcher)

    # When five workers have died of it
    for number in range(6):
        app = await world.app(sync)
        hosts.append(world.loop.host(f"worker-{number}"))
        await hosts[-1].spawn(app.supervisor().start())
        await world.clock.sleep(1000)

    # Then the job fails instead of killing the next
    job = await watcher.jobs.get(job.id)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.CRASHES_SPENT)
    assert job.summary.crashes == 5
    assert job.summary.errors == 0
    view = await watcher.jobs.view(job)
    assert view.message.startswith("We were interrupted again and again, so we stopped.")
    assert view.operator is not None and view.operator.error is not None
    assert "lost 5 times" in view.operator.error.message


@with_dying_workers
async def test_a_slow_chunk_keeps_its_lease_by_heartbeats(world: World) -> None:
    source = ScriptedSource(taking(300))
    sync = Sync(name="history", source=source, chunk_s_max=2000)
    first, second = await world.app(sync), await world.app(sync)
    job = await submit(first, days=1)
    await first.supervisor().start()
    await world.clock.sleep(1)
    await second.supervisor().start()
    job = await world.until(first, job.id)
    assert (job.state, job.summary.crashes) == (JobState.SUCCESS, 0)
    assert len(source.calls) == 1


class LossyStore:
    """Does the settle, and then loses the answer: once, for each change of a kind."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch, *, edge: JobEdge) -> None:
        self.lost = 0
        real = app._runtime.jobs.settle

        async def settle(change: JobChange, work: ChunkWork | None = None) -> Job | None:
            after = await real(change, work)
            if change.edge.name is edge and self.lost < 3:
                self.lost += 1
                raise StoreUnavailable
            return after

        monkeypatch.setattr(app._runtime.jobs, "settle", settle)


@pytest.mark.parametrize("edge", [JobEdge.ADVANCE, JobEdge.REST, JobEdge.SUCCEED])
@pytest.mark.fault(6)
@with_dying_workers
async def test_a_write_that_took_effect_but_lost_its_answer_counts_once(
    world: World, monkeypatch: pytest.MonkeyPatch, edge: JobEdge
) -> None:
    source = ScriptedSource(slow_day)
    app = await world.app(Sync(name="history", source=source), worker=lanes(slice_s=15))
    lossy = LossyStore(app, monkeypatch, edge=edge)
    job = await submit(app, days=6)
    await app.supervisor().start()
    job = await world.until(app, job.id, limit_s=500)
    assert job.state is JobState.SUCCESS
    assert lossy.lost > 0
    assert len(source.calls) == 6
    assert (job.steps, job.summary.chunks, job.summary.crashes) == (6, 6, 0)


@with_dying_workers
async def test_a_chunk_that_the_store_refuses_is_a_failed_chunk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ScriptedSource(slow_day)
    app = await world.app(Sync(name="history", source=source))
    settle = app._runtime.jobs.settle
    refused = 0

    async def refuse_once(change: JobChange, work: ChunkWork | None = None) -> Job | None:
        nonlocal refused
        if work is not None and work.records and not refused:
            refused += 1
            raise StoreError("the database refused: unsupported character")
        return await settle(change, work)

    monkeypatch.setattr(app._runtime.jobs, "settle", refuse_once)
    job = await submit(app, days=2)
    await app.supervisor().start()
    job = await world.until(app, job.id)
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 1)
    assert "retry" in kinds(await app.jobs.events(job.id))


@pytest.mark.parametrize("keep_jobs", [timedelta(days=7), None])
@with_dying_workers
async def test_old_jobs_are_pruned_in_the_background(
    world: World, monkeypatch: pytest.MonkeyPatch, keep_jobs: timedelta | None
) -> None:
    # Given jobs of one connection, more than fit into a batch
    monkeypatch.setattr(pruner, "PRUNE_JOBS_MAX", 2)
    worker = lanes(keep_jobs=keep_jobs, keep_events=timedelta(days=7))
    app = await world.app(Sync(name="history", source=ScriptedSource(nothing)), worker=worker)
    supervisor = app.supervisor()
    await supervisor.start()
    jobs = [await world.until(app, (await submit(app)).id) for _ in range(5)]
    await supervisor.stop()
    ids = [job.id for job in reversed(jobs)]

    # When they are old, and a worker is there
    await world.clock.sleep(8 * 24 * 3600)
    assert [job.id for job in await app.jobs.list()] == ids
    await app.supervisor().start()
    await world.clock.sleep(60)

    # Then all but the last are gone, unless jobs are kept for ever, as by default
    kept = ids if keep_jobs is None else ids[:1]
    assert [job.id for job in await app.jobs.list()] == kept
    # And so are the old events of those that are kept
    assert [await app.jobs.events(each) for each in kept] == [[] for _ in kept]
