"""The high-water mark: where the next job goes on, and what keeps it from moving."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from examples import edited_notes
from headgate import (
    App,
    Batch,
    Chunk,
    Context,
    JobState,
    Reason,
    Record,
    Refusal,
    Sync,
    Transient,
    WriteResult,
)
from headgate.base.encoding import Json
from headgate.types import Job
from tests.worlds import ScriptedSource, World, kinds, with_world

FIRST, LAST = date(2025, 12, 1), date(2025, 12, 5)


class Letters:
    """A provider with a letter for each number up to `last`, read two at a time, in order."""

    name = "letters"

    def __init__(self, last: int) -> None:
        self.last = last
        self.calls: list[Context] = []

    async def read(self, ctx: Context) -> Chunk:
        self.calls.append(ctx)
        begins = ctx.cursor if ctx.cursor is not None else ctx.high_water or 0
        assert isinstance(begins, int)
        page = [number for number in (begins + 1, begins + 2) if number <= self.last]
        ends = page[-1] if page else begins
        return Chunk(
            records=[Record(str(number), {"number": number}) for number in page],
            cursor=ends if ends < self.last else None,
            high_water=ends,
        )


class Shelf:
    """A destination that refuses some letters."""

    name = "shelf"

    def __init__(self, *refuses: int) -> None:
        self.refuses = {str(number) for number in refuses}
        self.taken: list[str] = []

    async def write(self, batch: Batch) -> WriteResult:
        refused = [each.key for each in batch.records if each.key in self.refuses]
        self.taken += [each.key for each in batch.records if each.key not in refused]
        return WriteResult(refused=[Refusal(key, "does not fit") for key in refused])


async def submit(app: App, mode: str = "since", **more: Any) -> Job:
    submitted = await app.jobs.submit("letters", user_id="ada", mode=mode, **more)
    return submitted.job


async def run(world: World, app: App, mode: str = "since", **more: Any) -> Job:
    """Submit a job and see it to its end."""
    return await world.until(app, (await submit(app, mode, **more)).id)


async def mark(app: App, sync: str = "letters") -> Json:
    """The mark that is stored."""
    return await app._runtime.records.high_water(sync, "ada")


@with_world
async def test_since_without_a_time_goes_on_from_the_mark(world: World) -> None:
    # Given a first job, which finds no mark and reads everything
    letters = Letters(5)
    app = await world.at_work(Sync(name="letters", source=letters))
    first = await run(world, app)
    assert (first.state, first.summary.records) == (JobState.SUCCESS, 5)
    assert [ctx.high_water for ctx in letters.calls] == [None] * 3
    assert (first.high_water, await mark(app)) == (5, 5)

    # When more has come
    letters.last = 8
    second = await run(world, app)

    # Then the next reads that alone; and it is told the same mark to its end
    assert second.summary.records == 3
    assert [ctx.high_water for ctx in letters.calls[3:]] == [5, 5]
    assert [ctx.since for ctx in letters.calls] == [None] * 5
    assert await mark(app) == 8

    # And with nothing new it stays where it is
    third = await run(world, app)
    assert (third.summary.records, await mark(app)) == (0, 8)


@with_world
async def test_an_explicit_time_counts(world: World) -> None:
    letters = Letters(2)
    app = await world.at_work(Sync(name="letters", source=letters))
    await run(world, app)
    moment = datetime(2025, 12, 24, tzinfo=UTC)

    await run(world, app, since=moment)

    assert (letters.calls[-1].since, letters.calls[-1].high_water) == (moment, None)


@pytest.mark.parametrize(("mode", "more"), [("full", {}), ("limit", {"limit": 9})])
@with_world
async def test_every_mode_may_name_a_mark(world: World, mode: str, more: dict[str, Any]) -> None:
    app = await world.at_work(Sync(name="letters", source=Letters(5)))

    await run(world, app, mode, **more)

    assert await mark(app) == 5


@with_world
async def test_a_refused_record_is_read_again_by_the_next_job(world: World) -> None:
    # Given a destination that refuses the third letter of six
    shelf = Shelf(3)
    letters = Letters(6)
    app = await world.at_work(Sync(name="letters", source=letters, destination=shelf))
    first = await run(world, app)

    # Then the mark stands before the page that the letter was on, and so does the next job
    assert (first.reason, first.summary.refused) == (Reason.DONE_WITH_GAPS, 1)
    assert shelf.taken == ["1", "2", "4", "5", "6"]
    assert (first.high_water, await mark(app)) == (2, 2)

    # When the letter is taken after all
    shelf.refuses.clear()
    second = await run(world, app)

    # Then the mark moves to the end
    assert shelf.taken[5:] == ["3", "4", "5", "6"]
    assert (second.reason, await mark(app)) == (Reason.DONE, 6)


@with_world
async def test_a_page_that_failed_and_was_read_again_is_no_gap(world: World) -> None:
    # Given a page that fails once
    class Flaky(Letters):
        async def read(self, ctx: Context) -> Chunk:
            chunk = await super().read(ctx)
            if len(self.calls) == 2:
                raise Transient("not now")
            return chunk

    app = await world.at_work(Sync(name="letters", source=Flaky(6)))

    job = await run(world, app)

    assert (job.summary.errors, await mark(app)) == (1, 6)


@with_world
async def test_a_mark_that_cannot_be_stored_fails_the_chunk_and_changes_nothing(
    world: World,
) -> None:
    async def read(ctx: Context) -> Chunk:
        bad = len(source.calls) == 1
        return Chunk(records=[Record("a", {})], high_water=object() if bad else 1)

    source = ScriptedSource(read)
    shelf = Shelf()
    app = await world.at_work(Sync(name="letters", source=source, destination=shelf))

    job = await run(world, app)

    assert kinds(await app.jobs.events(job.id)) == ["submitted", "retry", "succeeded"]
    assert (shelf.taken, job.summary.records, await mark(app)) == (["a"], 1, 1)


@with_world
async def test_the_example_reads_on_and_skips_what_did_not_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once(mode: str = "since", **more: Any) -> Job:
        submitted = await app.jobs.submit("notes", user_id="ada", mode=mode, **more)
        return await world.until(app, submitted.job.id)

    # With two edits of one moment, where a page ends
    notes = {**edited_notes.NOTES, "note-100": edited_notes.NOTES["note-99"]}
    monkeypatch.setattr(edited_notes, "NOTES", notes)
    app = await world.at_work(Sync(name="notes", source=edited_notes.Notes()))

    # Given everything, read once
    first = await once()
    assert (first.summary.inserted, first.summary.counts) == (250, {"unchanged": 0})
    assert len(await app.records.list("notes", "ada", limit=1000)) == 250
    story = kinds(await app.jobs.events(first.id))
    assert story == ["submitted", *("page_read", "chunk") * 2, "page_read", "succeeded"]

    # When one note is edited, and one is only touched
    latest = await mark(app, "notes")
    assert isinstance(latest, int)
    notes["note-3"] = (latest + 1, "another text")
    notes["note-4"] = (latest + 2, notes["note-4"][1])
    second = await once()

    # Then only these are looked at, and only the edited one is given
    assert (second.summary.updated, second.summary.counts) == (1, {"unchanged": 1})
    assert await mark(app, "notes") == latest + 2

    # And a time, or mode full, reads from there, or everything
    then = datetime.fromtimestamp(latest / 1000, UTC) - timedelta(seconds=1)
    assert (await once(since=then)).summary.counts == {"unchanged": 250}
    assert (await once("full")).summary.counts == {"unchanged": 250}
