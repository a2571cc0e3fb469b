"""Historical jobs from submit to done: order, coverage, progress, counters."""

from datetime import date, timedelta

import pytest

from headgate import (
    App,
    Chunk,
    Context,
    DayStatus,
    JobState,
    NoData,
    Reason,
    Record,
    RetryPolicy,
    Sync,
    Transient,
)
from headgate.model import job as job_model
from headgate.types import Job
from tests.worlds import ScriptedSource, World, kinds, lanes, with_world

FIRST, LAST = date(2025, 12, 1), date(2025, 12, 10)


async def one_record_a_day(ctx: Context) -> Chunk:
    return Chunk(records=[Record(f"{ctx.day}", {"day": str(ctx.day)})])


async def submit_history(
    app: App, *, user: str = "ada", key: str | None = None, reprocess: str = "failed"
) -> Job:
    submitted = await app.jobs.submit(
        "history",
        user_id=user,
        mode="history",
        start_date=FIRST,
        end_date=LAST,
        key=key,
        reprocess=reprocess,
    )
    return submitted.job


@with_world
async def test_days_are_read_from_newest_to_oldest_and_covered(world: World) -> None:
    # Given a source with two empty days, one said by NoData and one by an empty chunk
    async def read(ctx: Context) -> Chunk:
        assert ctx.day is not None
        if ctx.day.day == 4:
            raise NoData
        return await one_record_a_day(ctx) if ctx.day.day != 7 else Chunk()

    source = ScriptedSource(read)
    app = await world.app(Sync(name="history", source=source))
    job = await submit_history(app)
    assert job.progress.percent == 0.0

    # When a worker runs
    await app.supervisor().start()
    job = await world.until(app, job.id)

    # Then every day was read once, newest first, and each has its coverage
    days = [FIRST + timedelta(days=n) for n in range(10)]
    assert [ctx.day for ctx in source.calls] == days[::-1]
    assert job.state is JobState.SUCCESS
    assert job.reason is Reason.DONE
    assert job.progress.percent == 100.0
    assert (job.summary.days_held, job.summary.days_empty) == (8, 2)
    assert job.summary.inserted == 8
    rows = await app.records.coverage("history", "ada", start=FIRST, end=LAST)
    assert [row.day for row in rows] == days
    empty = {row.day.day for row in rows if row.status is DayStatus.EMPTY}
    assert empty == {4, 7}
    assert len(await app.records.list("history", "ada")) == 8
    story = kinds(await app.jobs.events(job.id))
    assert story == ["submitted", *["chunk"] * 9, "succeeded"]


@with_world
async def test_a_long_job_rests_after_its_slice_so_that_others_get_a_turn(world: World) -> None:
    # Given one cold slot, a slice of 25 s, and days that take 10 s each
    order: list[str] = []

    async def read(ctx: Context) -> Chunk:
        order.append(ctx.user_id)
        await ctx.clock.sleep(10)
        return Chunk()

    app = await world.app(
        Sync(name="history", source=ScriptedSource(read)), worker=lanes(cold=1, slice_s=25)
    )
    for user in ("ada", "bob"):
        await submit_history(app, user=user)
    await app.supervisor().start()
    await world.clock.sleep(125)

    # Then the two take turns, three days a slice
    assert order[:12] == ["ada"] * 3 + ["bob"] * 3 + ["ada"] * 3 + ["bob"] * 3


@with_world
async def test_days_that_are_held_are_not_read_again_unless_asked(world: World) -> None:
    # Given a history with one day that could not be read
    broken = {FIRST + timedelta(days=4)}

    async def read(ctx: Context) -> Chunk:
        if ctx.day in broken:
            raise Transient("503")
        return await one_record_a_day(ctx)

    source = ScriptedSource(read)
    hasty = RetryPolicy(backoff_s=0.1, errors_max=0, cooldown_s=1.0, pauses_max=0)
    app = await world.at_work(Sync(name="history", source=source, retry=hasty))
    first = await world.until(app, (await submit_history(app)).id)
    assert (first.summary.days_held, first.summary.days_failed) == (9, 1)

    # When the same days are asked for once more, then the failed one alone is read
    broken.clear()
    source.calls.clear()
    second = await submit_history(app)
    assert second.progress.total == 1
    second = await world.until(app, second.id)
    assert [ctx.day for ctx in source.calls] == [FIRST + timedelta(days=4)]

    # and when nothing is missing, then there is nothing to do
    third = await world.until(app, (await submit_history(app)).id)
    assert third.state is JobState.SUCCESS
    assert (await app.jobs.view(third)).message == "Done: every day was imported already."
    assert len(source.calls) == 1

    # Unless all are asked for: then they are read again, and nothing of them has changed
    fourth = await world.until(app, (await submit_history(app, reprocess="all")).id)
    assert (fourth.summary.unchanged, fourth.summary.inserted) == (10, 0)


@with_world
async def test_the_same_key_gives_the_same_job_whatever_is_held_by_now(world: World) -> None:
    app = await world.at_work(Sync(name="history", source=ScriptedSource(one_record_a_day)))
    first = await submit_history(app, key="import-1")
    await world.until(app, first.id)

    assert (await submit_history(app, key="import-1")).id == first.id


@with_world
async def test_after_every_second_day_has_failed_only_those_days_are_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given days of which every second one fails: more gaps than a plan lists
    monkeypatch.setattr(job_model, "STRETCHES_MAX", stretches_max := 20)
    days = 2 * stretches_max + 20
    first = LAST - timedelta(days=days - 1)
    broken = True

    async def read(ctx: Context) -> Chunk:
        assert ctx.day is not None
        if broken and ctx.day.toordinal() % 2:
            raise Transient("the day is broken")
        return Chunk()

    source = ScriptedSource(read)
    hasty = RetryPolicy(backoff_s=0.1, errors_max=0, cooldown_s=1.0, pauses_max=0)
    app = await world.app(Sync(name="history", source=source, retry=hasty))

    async def import_all() -> Job:
        submitted = await app.jobs.submit(
            "history",
            user_id="ada",
            mode="history",
            start_date=first,
            end_date=LAST,
        )
        return await world.until(app, submitted.job.id)

    await app.supervisor().start()
    job = await import_all()
    # Each is read once more before it is given up.
    bad = [ctx.day for ctx in source.calls if ctx.day and ctx.day.toordinal() % 2]
    failed = list(dict.fromkeys(bad))
    assert job.summary.days_failed == len(failed) > stretches_max

    # When they are imported once more
    broken = False
    source.calls.clear()
    job = await import_all()

    # Then the failed days are read, and none that is held
    assert [ctx.day for ctx in source.calls] == failed
    assert (job.progress.done, job.progress.total) == (len(failed), len(failed))
