"""A new job that goes on where the last one of its sync and connection stopped."""

from datetime import UTC, datetime

import pytest

from headgate import (
    Chunk,
    Context,
    InvalidInput,
    JobState,
    Lane,
    Mode,
    NoData,
    Record,
    Sync,
    Terminal,
)
from headgate.errors import ActiveJobExists, IllegalTransition
from headgate.model.job import Progress
from tests.flow.sources import raising
from tests.worlds import ScriptedSource, World, with_world


async def four_pages(ctx: Context) -> Chunk:
    """Read four pages, a record each; the marks are the numbers of the pages."""
    page = ctx.cursor if isinstance(ctx.cursor, int) else 0
    await ctx.clock.sleep(10)
    return Chunk(
        records=[Record(str(page), {"page": page})],
        counts={"pages": 1},
        cursor=page + 1 if page < 3 else None,
        high_water=page,
        progress=Progress(done=page + 1, total=4),
    )


@with_world
async def test_a_cancelled_job_is_continued_with_the_pages_that_are_left(world: World) -> None:
    # Given a job that was cancelled after two of four pages
    source = ScriptedSource(four_pages)
    app = await world.app(Sync(name="notes", source=source))
    since = datetime(2020, 1, 2, tzinfo=UTC)
    first = await app.jobs.submit(
        "notes",
        user_id="ada",
        mode="since",
        since=since,
        lane="cold",
        options={"graph": "work"},
    )
    await app.supervisor().start()
    while (await app.jobs.get(first.job.id)).steps < 2:
        await world.clock.sleep(1)
    with pytest.raises(ActiveJobExists):
        await app.jobs.continue_last("notes", user_id="ada")
    await app.jobs.cancel(first.job.id)
    cancelled = await world.until(app, first.job.id)
    assert cancelled.state is JobState.CANCELLED
    read_before = len(source.calls)

    # When another ends before its first checkpoint, and one that is ignored succeeds
    unlucky = await app.jobs.submit("notes", user_id="ada", delay_s=3600, options={"dry": True})
    await app.jobs.cancel(unlucky.job.id)

    # And it is continued, twice with the same key
    more = await app.jobs.continue_last("notes", user_id="ada", key="k")
    same = await app.jobs.continue_last("notes", user_id="ada", key="k")

    # Then one new job has what was asked for and the checkpoint of the first
    assert (more.created, same.created) == (True, False)
    assert same.job.id == more.job.id != first.job.id
    assert (more.job.mode, more.job.lane) == (Mode.SINCE, Lane.COLD)
    assert more.job.params == cancelled.params
    assert (more.job.cursor, more.job.high_water) == (2, 1)
    assert more.job.progress == Progress(done=2, total=4)

    # And it reads exactly the pages that are left, and its success stores the mark
    done = await world.until(app, more.job.id)
    assert done.state is JobState.SUCCESS
    assert [ctx.cursor for ctx in source.calls[read_before:]] == [2, 3]
    assert done.summary.counts == {"pages": 4}
    assert await app._runtime.records.high_water("notes", "ada") == 3

    # And after a success there is nothing to continue, nor behind one that is ignored
    with pytest.raises(IllegalTransition, match="reached a checkpoint"):
        await app.jobs.continue_last("notes", user_id="ada", ignore=lambda job: True)
    with pytest.raises(IllegalTransition, match="succeeded"):
        await app.jobs.continue_last("notes", user_id="ada")


@with_world
async def test_there_must_be_something_to_continue(world: World) -> None:
    app = await world.at_work(
        Sync(name="notes", source=ScriptedSource(raising(Terminal, "the graph is gone"))),
        Sync(name="days", source=ScriptedSource(raising(NoData), name="other")),
    )

    async def again() -> None:
        await app.jobs.continue_last("notes", user_id="ada")

    with pytest.raises(IllegalTransition, match="reached a checkpoint"):
        await again()

    submitted = await app.jobs.submit("notes", user_id="ada")
    assert (await world.until(app, submitted.job.id)).state is JobState.FAILED
    with pytest.raises(IllegalTransition, match="reached a checkpoint"):
        await again()

    # Another user's job is not one's own.
    with pytest.raises(IllegalTransition, match="reached a checkpoint"):
        await app.jobs.continue_last("notes", user_id="eve")

    day = datetime(2020, 1, 1, tzinfo=UTC).date()
    days = await app.jobs.submit(
        "days", user_id="ada", mode="history", start_date=day, end_date=day
    )
    await world.until(app, days.job.id)
    with pytest.raises(InvalidInput, match="backfill"):
        await app.jobs.continue_last("days", user_id="ada")
