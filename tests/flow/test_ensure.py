"""Making sure that a sync looks at a connection; chunks that wait, and chunks cut short."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta

import pytest

from headgate import App, Chunk, Context, InvalidInput, JobState, Mode, Record, Sync, Transient
from headgate.errors import ActiveJobExists
from headgate.model.job import Reason
from headgate.types import Job
from tests.flow.sources import raising
from tests.worlds import ScriptedSource, World, kinds, with_world

HOUR = timedelta(hours=1)


class Inbox:
    """Things that came in, and a source that sees to them; while there are none it waits."""

    def __init__(self, *, wait: timedelta | None = HOUR) -> None:
        self.came: list[str] = []
        self.seen: list[str] = []
        self._wait = wait
        #: Happens while a chunk is being read, after it has looked.
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.source = ScriptedSource(self._read)

    async def _read(self, ctx: Context) -> Chunk:
        found, self.came = self.came, []
        self.seen += found
        await ctx.clock.sleep(1)
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        records = [Record(each, {}) for each in found]
        return Chunk(records=records, wait=timedelta(0) if found else self._wait)


async def ensure(app: App) -> Job:
    return (await app.jobs.ensure("inbox", user_id="ada")).job


async def opened(world: World, inbox: Inbox) -> App:
    """An application whose worker looks into the inbox."""
    app = await world.at_work(Sync(name="inbox", source=inbox.source))
    return app


@with_world
async def test_without_an_active_job_a_new_one_is_submitted(world: World) -> None:
    inbox = Inbox(wait=None)
    app = await opened(world, inbox)
    inbox.came.append("a")
    first = await ensure(app)
    assert (await world.until(app, first.id)).state is JobState.SUCCESS
    second = await ensure(app)
    assert (first.id != second.id, inbox.seen) == (True, ["a"])


@with_world
async def test_an_idle_job_looks_at_once(world: World) -> None:
    inbox = Inbox()
    app = await opened(world, inbox)
    # Given a job that has nothing to do for an hour
    job = await ensure(app)
    await world.clock.sleep(60)
    idle = await app.jobs.get(job.id)
    assert (idle.state, idle.reason) == (JobState.PENDING, Reason.IDLE)
    assert "Nothing to do at the moment; checking again at" in (await app.jobs.view(idle)).message

    # When something comes in, then it is seen to within seconds, by the same job
    inbox.came.append("a")
    assert (await ensure(app)).id == job.id
    await world.clock.sleep(3)
    assert inbox.seen == ["a"]


@pytest.mark.parametrize("wait", [None, HOUR])
@with_world
async def test_what_comes_in_during_the_last_chunk_is_seen_to(
    world: World, wait: timedelta | None
) -> None:
    inbox = Inbox(wait=wait)
    app = await opened(world, inbox)
    # Given something that comes in after the last chunk has looked, and is about to end or rest
    asked: list[Job] = []

    async def come_in() -> None:
        inbox.came.append("late")
        asked.append(await ensure(app))

    inbox.meanwhile = come_in
    job = await ensure(app)

    # Then the same job goes on, sees to it at once, and ends or rests after that
    await world.clock.sleep(10)
    done = await app.jobs.get(job.id)
    assert done.state is (JobState.PENDING if wait else JobState.SUCCESS)
    assert (done.rerun, asked[0].id, inbox.seen) == (False, job.id, ["late"])
    assert kinds(await app.jobs.events(job.id)).count("rerun_asked") == 1


@with_world
async def test_a_pause_that_was_asked_meanwhile_comes_before_another_run(world: World) -> None:
    inbox = Inbox(wait=None)
    app = await opened(world, inbox)

    async def both() -> None:
        job = await ensure(app)
        await app.jobs.pause(job.id)

    inbox.meanwhile = both
    job = await ensure(app)
    paused = await world.until(app, job.id, JobState.PAUSED)
    await app.jobs.resume(job.id)

    assert (paused.reason, paused.rerun) == (Reason.OPERATOR, False)
    assert (await world.until(app, job.id)).state is JobState.SUCCESS
    assert len(inbox.source.calls) == 2


@with_world
async def test_many_at_once_lose_nothing(world: World) -> None:
    inbox = Inbox(wait=None)
    app = await opened(world, inbox)

    async def come_in(number: int) -> None:
        await world.clock.sleep(number * 0.37)
        inbox.came.append(str(number))
        await ensure(app)

    await asyncio.gather(*(come_in(number) for number in range(30)))
    await world.clock.sleep(10)

    assert sorted(inbox.seen, key=int) == [str(number) for number in range(30)]


@with_world
async def test_one_that_waits_for_its_provider_is_not_hurried(world: World) -> None:
    source = ScriptedSource(raising(Transient, "503"))
    app = await world.at_work(Sync(name="inbox", source=source))
    await ensure(app)
    await world.clock.sleep(0.1)

    waiting = await ensure(app)

    assert (waiting.reason, len(source.calls)) == (Reason.RETRYING, 1)


@with_world
async def test_a_list_of_jobs_has_a_limit(world: World) -> None:
    app = await opened(world, Inbox())
    for limit in (0, 1001):
        with pytest.raises(InvalidInput, match="limit"):
            await app.jobs.list(limit=limit)


@with_world
async def test_a_job_that_is_to_run_again_begins_anew(world: World) -> None:
    # Given a job on its last page, and something new on the first
    async def read(ctx: Context) -> Chunk:
        page = ctx.cursor if isinstance(ctx.cursor, int) else 1
        if page == 3 and len(source.calls) == 3:
            await ensure(app)
        return Chunk(cursor=page + 1 if page < 3 else None)

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="inbox", source=source))

    job = await ensure(app)

    assert (await world.until(app, job.id)).state is JobState.SUCCESS
    assert [ctx.cursor for ctx in source.calls] == [None, 2, 3, None, 2, 3]


@pytest.mark.parametrize("restart", [False, True])
@with_world
async def test_an_idle_job_goes_on_or_begins_anew(world: World, restart: bool) -> None:
    async def read(ctx: Context) -> Chunk:
        return Chunk(cursor="fetching", wait=HOUR)

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="inbox", source=source))
    await ensure(app)
    await world.clock.sleep(1)

    await app.jobs.ensure("inbox", user_id="ada", restart=restart)
    await world.clock.sleep(1)

    assert [ctx.cursor for ctx in source.calls] == [None, None if restart else "fetching"]


@with_world
async def test_a_job_that_was_to_begin_later_begins_now(world: World) -> None:
    inbox = Inbox(wait=None)
    app = await opened(world, inbox)
    later = await app.jobs.submit("inbox", user_id="ada", delay_s=7 * 86_400)
    assert (await ensure(app)).id == later.job.id
    await world.clock.sleep(5)
    assert (await app.jobs.get(later.job.id)).state is JobState.SUCCESS


@with_world
async def test_a_backfill_is_not_used(world: World) -> None:
    app = await world.app(Sync(name="inbox", source=Inbox().source))
    await app.jobs.submit(
        "inbox",
        user_id="ada",
        mode=Mode.HISTORY,
        start_date=date(2025, 1, 1),
        end_date=date(2025, 1, 2),
    )
    with pytest.raises(ActiveJobExists):
        await app.jobs.ensure("inbox", user_id="ada")


@with_world
async def test_a_backfill_is_submitted_not_ensured(world: World) -> None:
    app = await opened(world, Inbox())
    with pytest.raises(InvalidInput, match="mode"):
        await app.jobs.ensure("inbox", user_id="ada", mode=Mode.HISTORY)


# ---- chunks that are cut short -----------------------------------------------------------------


@with_world
async def test_what_half_a_chunk_brought_is_committed_before_its_error_is_dealt_with(
    world: World,
) -> None:
    # Given a source whose second chunk breaks half-way, the first time
    async def read(ctx: Context) -> Chunk:
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        record = Record(f"page {page}", {})
        if page == 1 and len(source.calls) == 2:
            return Chunk(records=[record], cursor=2, error=Transient("503"))
        return Chunk(records=[record], cursor=page + 1 if page < 2 else None)

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="pages", source=source))

    # When it has run, then what the half brought was not asked for again
    submitted = await app.jobs.submit("pages", user_id="ada")
    job = await world.until(app, submitted.job.id)
    assert [ctx.cursor for ctx in source.calls] == [None, 1, 2]
    assert (job.state, job.steps, job.summary.errors) == (JobState.SUCCESS, 3, 1)
    kept = await app.records.list("pages", "ada")
    assert [record.key for record in kept] == ["page 0", "page 1", "page 2"]
    # And the error was told after the chunk
    told = kinds(await app.jobs.events(job.id))
    assert told == ["submitted", "chunk", "chunk", "retry", "succeeded"]


@pytest.mark.parametrize("delivers", [False, True])
@with_world
async def test_half_a_day_is_kept_and_the_day_is_read_again(world: World, delivers: bool) -> None:
    # Given a day of which the second half fails, the first time
    async def read(ctx: Context) -> Chunk:
        half = [Record("morning", {})]
        if len(source.calls) == 1:
            return Chunk(records=half, error=Transient("503"))
        return Chunk(records=[*half, Record("evening", {})])

    batches: list[tuple[str, int]] = []

    class Ledger:
        name = "ledger"

        async def write(self, batch: object) -> None:
            batches.append((batch.key, len(batch.records)))  # type: ignore[attr-defined]

    source = ScriptedSource(read)
    destination = Ledger() if delivers else None
    app = await world.at_work(Sync(name="days", source=source, destination=destination))
    day = date(2025, 12, 1)
    submitted = await app.jobs.submit(
        "days", user_id="ada", mode=Mode.HISTORY, start_date=day, end_date=day
    )

    # When it has run, then the day was asked for twice, and is whole
    job = await world.until(app, submitted.job.id)
    assert [ctx.day for ctx in source.calls] == [day, day]
    assert (job.state, job.summary.days_held) == (JobState.SUCCESS, 1)
    if delivers:
        # Half a day was not delivered: it would have been another batch.
        assert batches == [(f"{job.id}:0", 2)]
    else:
        assert [record.key for record in await app.records.list("days", "ada")] == [
            "evening",
            "morning",
        ]


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.HISTORY])
@with_world
async def test_a_chunk_that_fails_half_way_again_and_again_is_given_up(
    world: World, mode: Mode
) -> None:
    # Given a source that brings the same half again and again
    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record("half", {})], cursor=ctx.cursor, error=Transient("503"))

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="halves", source=source))
    days = {"start_date": date(2025, 1, 1), "end_date": date(2025, 1, 1)}
    submitted = await app.jobs.submit(
        "halves",
        user_id="ada",
        mode=mode,
        **(days if mode is Mode.HISTORY else {}),
    )

    # Then its tries are counted, and it ends as one that brings nothing does
    job = await world.until(app, submitted.job.id)
    assert len(source.calls) < 100
    if mode is Mode.HISTORY:
        assert (job.state, job.summary.days_failed) == (JobState.SUCCESS, 1)
        assert (job.summary.records, await app._runtime.records.high_water("halves", "ada")) == (
            0,
            None,
        )
    else:
        assert job.state is JobState.FAILED
    assert [record.key for record in await app.records.list("halves", "ada")] == ["half"]
