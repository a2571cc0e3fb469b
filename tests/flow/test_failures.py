"""What becomes of a job when chunks fail: retries, deferrals, the breaker, gaps, ends."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from headgate import (
    App,
    AuthExpired,
    Chunk,
    ChunkLimits,
    Context,
    DayStatus,
    JobState,
    Malformed,
    RateLimited,
    Reason,
    Record,
    RetryPolicy,
    Sync,
    Transient,
    WorkerSettings,
)
from headgate.base.failure import read_failure
from headgate.errors import Forbidden
from headgate.types import Job
from tests.flow.sources import nothing
from tests.worlds import ScriptedSource, World, kinds, lanes, with_world

DAY = date(2025, 12, 24)


async def submit(app: App, *, user: str = "ada", days: int = 3, sync: str = "history") -> Job:
    submitted = await app.jobs.submit(
        sync,
        user_id=user,
        mode="history",
        start_date=DAY - timedelta(days=days - 1),
        end_date=DAY,
    )
    return submitted.job


@with_world
async def test_a_transient_error_is_tried_again_with_growing_pauses(world: World) -> None:
    # Given a source that fails four times before it answers
    tried_at: list[float] = []

    async def read(ctx: Context) -> Chunk:
        tried_at.append(ctx.clock.monotonic())
        if len(tried_at) <= 4:
            raise Transient("503 from upstream")
        return Chunk()

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)))
    job = await submit(app, days=1)

    # When it runs to its end
    job = await world.until(app, job.id)

    # Then it succeeded, each wait in the upper half of an exponential curve
    assert job.state is JobState.SUCCESS
    waits = [later - earlier for earlier, later in pairwise(tried_at)]
    for wait, longest in zip(waits, (5, 10, 20, 40), strict=True):
        assert longest / 2 <= wait <= longest + 0.1
    assert job.summary.errors == 4
    assert (job.attempts, job.recent_errors, job.error) == (0, (), None)
    assert kinds(await app.jobs.events(job.id)) == ["submitted", *["retry"] * 4, "succeeded"]


@with_world
async def test_six_failures_within_an_hour_pause_the_job_and_it_comes_back(world: World) -> None:
    # Given a provider that is down for the first six reads
    source_calls = 0

    async def read(ctx: Context) -> Chunk:
        nonlocal source_calls
        source_calls += 1
        if source_calls <= 6:
            raise Transient("down")
        return Chunk()

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)))
    job = await submit(app, days=2)

    # When the breaker opens
    job = await world.until(app, job.id, JobState.PAUSED)

    # Then the job says why and until when, and is not read meanwhile
    assert job.reason is Reason.BREAKER
    assert job.wake_at is not None
    cooldown = job.wake_at - world.clock.now()
    assert timedelta(minutes=59) < cooldown <= timedelta(hours=1)
    assert "We will automatically resume at" in (await app.jobs.view(job)).message
    await world.clock.sleep(3000)
    assert source_calls == 6

    # And after the cool-down it goes on by itself
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert job.summary.pauses == 1
    assert job.probe is False
    assert "thawed" in kinds(await app.jobs.events(job.id))


@with_world
async def test_one_probe_goes_first_and_then_the_others_follow_one_by_one(world: World) -> None:
    # Given a provider that is down, and ten users paused by it
    down = True
    reads: list[tuple[float, str]] = []

    async def read(ctx: Context) -> Chunk:
        reads.append((ctx.clock.monotonic(), ctx.user_id))
        if down:
            raise Transient("down")
        return Chunk()

    policy = RetryPolicy(stagger_s=30)
    app = await world.at_work(
        Sync(name="history", source=ScriptedSource(read), retry=policy), worker=lanes(cold=10)
    )
    jobs = [await submit(app, user=f"u{n}", days=1) for n in range(10)]
    for job in jobs:
        await world.until(app, job.id, JobState.PAUSED)

    # When the cool-down ends while the provider is still down
    reads.clear()
    await world.clock.sleep(3600 + 300)

    # Then one probe after another asked, each once: no stampede
    assert 1 <= len(reads) <= 10
    times = [at for at, _ in reads]
    assert len({user for _, user in reads}) == len(reads)
    assert times == sorted(times)
    paused = await app.jobs.list(states=[JobState.PAUSED])
    assert len(paused) == 10 - sum(job.probe for job in await app.jobs.list())

    # And when the provider is back, the rest follow, half a minute apart
    down = False
    reads.clear()
    for job in jobs:
        assert (await world.until(app, job.id)).state is JobState.SUCCESS
    times = [at for at, _ in reads]
    gaps = [later - earlier for earlier, later in pairwise(times[1:])]
    assert len(reads) == 10
    assert min(gaps) > 25


@with_world
async def test_a_poison_day_becomes_a_gap_and_the_job_goes_on(world: World) -> None:
    # Given a day that can never be read
    poison = DAY - timedelta(days=1)

    async def read(ctx: Context) -> Chunk:
        if ctx.day == poison:
            raise Malformed("not JSON")
        return Chunk(records=[Record(str(ctx.day), {})])

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)))
    job = await submit(app, days=3)

    # When its three pauses are spent
    job = await world.until(app, job.id)

    # Then the job is done, and the gap is written down with its reason
    assert job.state is JobState.SUCCESS
    assert job.reason is Reason.DONE_WITH_GAPS
    assert (job.summary.days_held, job.summary.days_failed) == (2, 1)
    assert job.summary.pauses == 3
    rows = await app.records.coverage("history", "ada", start=DAY - timedelta(days=2), end=DAY)
    assert [row.status for row in rows] == [DayStatus.HELD, DayStatus.FAILED, DayStatus.HELD]
    assert (rows[1].error or "").startswith("Malformed: not JSON\nraised at tests/flow/")
    assert "1 day could not be read" in (await app.jobs.view(job)).message


@with_world
async def test_a_deferral_waits_until_its_time_and_burns_nothing(world: World) -> None:
    calls: list[float] = []

    async def read(ctx: Context) -> Chunk:
        calls.append(ctx.clock.monotonic())
        if len(calls) <= 20:
            raise RateLimited(timedelta(minutes=15))
        return Chunk()

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)))
    job = await submit(app, days=1)
    await world.clock.sleep(60)
    waiting = await app.jobs.get(job.id)
    assert (waiting.state, waiting.reason) == (JobState.PENDING, Reason.RATE_LIMITED)
    assert (waiting.attempts, waiting.summary.errors, waiting.deferrals) == (0, 0, 1)
    assert "going on at 2026-01-01 00:15 UTC" in (await app.jobs.view(waiting)).message

    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert job.summary.deferrals == 20
    assert calls[1] == pytest.approx(15 * 60, abs=1)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(AuthExpired("401"), Reason.NEEDS_REAUTH), (Forbidden("403"), Reason.REFUSED)],
)
@with_world
async def test_what_cannot_be_helped_fails_at_once(
    world: World, error: Exception, reason: Reason
) -> None:
    async def read(ctx: Context) -> Chunk:
        raise error

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="history", source=source))
    job = await submit(app)
    job = await world.until(app, job.id)
    assert (job.state, job.reason) == (JobState.FAILED, reason)
    assert len(source.calls) == 1


@pytest.mark.parametrize(
    "slip",
    [
        lambda: KeyError("items"),
        lambda: ValueError("the provider said \ud800"),
        lambda: RateLimited(datetime(2026, 3, 1, 13, tzinfo=UTC)),  # type: ignore[arg-type]  # the slip
    ],
    ids=["a missing key", "half a surrogate pair", "a moment for a duration"],
)
@with_world
async def test_an_error_nobody_foresaw_is_tried_again(
    world: World, slip: Callable[[], Exception]
) -> None:
    calls = 0

    async def read(ctx: Context) -> Chunk:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise slip()
        return Chunk()

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)))
    job = await submit(app, days=1)
    job = await world.until(app, job.id)
    assert job.state is JobState.SUCCESS
    assert (job.summary.errors, job.summary.crashes) == (1, 0)


@with_world
async def test_a_chunk_that_hangs_is_cut_off_and_retried(world: World) -> None:
    calls = 0

    async def read(ctx: Context) -> Chunk:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return Chunk()

    app = await world.at_work(Sync(name="history", source=ScriptedSource(read), chunk_s_max=45))
    job = await submit(app, days=1)
    await world.clock.sleep(46)
    assert "longer than 45 s" in ((await app.jobs.get(job.id)).error or "")
    assert (await world.until(app, job.id)).state is JobState.SUCCESS


@with_world
async def test_a_record_that_is_too_large_is_refused_by_name(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record("small", {}), Record("large", {"text": "x" * 100})])

    limited = WorkerSettings(chunk=ChunkLimits(record_bytes_max=100))
    app = await world.at_work(Sync(name="history", source=ScriptedSource(read)), worker=limited)
    job = await submit(app, days=1)
    await world.clock.sleep(1)
    job = await app.jobs.get(job.id)
    assert job.error is not None
    failure = read_failure(job.error)
    assert failure.kind == "Malformed"
    assert "a record of 111 bytes, 'large'; at most 100" in failure.message
    assert await app.records.list("history", "ada") == []


@pytest.mark.fault(37)
@with_world
async def test_a_worker_leaves_a_sync_that_it_does_not_know_to_others(world: World) -> None:
    # Given a job of a sync that only a newer release declares
    newer = await world.app(Sync(name="history", source=ScriptedSource(nothing)))
    older = await world.app()
    job = await submit(newer, days=1)

    # When an older worker looks for work
    old_worker = older.supervisor()
    await old_worker.start()
    await world.clock.sleep(1)

    # Then it leaves it where it is, and the newer one does it
    assert await newer.jobs.get(job.id) == job
    await old_worker.stop()
    await newer.supervisor().start()
    assert (await world.until(newer, job.id)).state is JobState.SUCCESS
