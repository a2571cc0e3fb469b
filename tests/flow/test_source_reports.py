"""What a source tells of its own, with its chunk; and what it is told of what is stored."""

import pytest

from headgate import App, Chunk, ChunkEvent, Context, JobState, JsonObject, Record, Sync, Transient
from headgate.base.failure import read_failure
from headgate.errors import StoreUnavailable
from headgate.model.change import JobChange
from headgate.ports.jobs.store import ChunkWork
from headgate.toolkit import content_hash
from headgate.types import Job
from tests.worlds import ScriptedSource, World, kinds, with_world


async def submit(app: App, sync: str = "notes") -> Job:
    submitted = await app.jobs.submit(sync, user_id="ada")
    return submitted.job


@with_world
async def test_a_source_s_events_are_part_of_the_job_s_story(world: World) -> None:
    # Given a source that tells of each page, and at the end of the whole
    async def read(ctx: Context) -> Chunk:
        page = ChunkEvent("page_read", {"page": ctx.chunks})
        if ctx.chunks < 2:
            return Chunk(events=[page], cursor=ctx.chunks + 1)
        return Chunk(events=[page, ChunkEvent("batch_complete", {"pages": 3})])

    app = await world.app(Sync(name="notes", source=ScriptedSource(read)))
    job = await submit(app)

    # When it has run
    await app.supervisor().start()
    await world.until(app, job.id)

    # Then the story tells both sides, in order
    story = await app.jobs.events(job.id)
    assert kinds(story) == [
        "submitted",
        *("page_read", "chunk"),
        *("page_read", "chunk"),
        *("page_read", "batch_complete", "succeeded"),
    ]
    assert [event.data for event in story if event.kind == "page_read"] == [
        {"page": 0},
        {"page": 1},
        {"page": 2},
    ]
    # And how far it is can be asked without them
    far = (await app.jobs.last_events([job.id, "unknown"]))[job.id]
    assert (far.id, far.state) == (story[-1].id, JobState.SUCCESS)


@with_world
async def test_a_wrong_event_fails_the_chunk_and_nothing_of_it_is_kept(world: World) -> None:
    # Given a source that first tells of something under a name of the engine's
    async def read(ctx: Context) -> Chunk:
        kind = "succeeded" if len(source.calls) == 1 else "notes_read"
        return Chunk(
            records=[Record("a", {"read": len(source.calls)})],
            events=[ChunkEvent("page_read"), ChunkEvent(kind)],
        )

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="notes", source=source))
    job = await submit(app)

    # When the chunk was refused, then it counts as failed, and leaves nothing behind
    job = await world.until(app, job.id, JobState.PENDING)
    while job.attempts == 0:
        await world.clock.sleep(0.1)
        job = await app.jobs.get(job.id)
    assert read_failure(job.error or "").message == (
        "events[1].kind: 'succeeded' is the engine's own; "
        "choose another name, such as source_succeeded"
    )
    assert kinds(await app.jobs.events(job.id)) == ["submitted", "retry"]
    assert await app.records.list("notes", "ada") == []

    # And once the source is right, the job goes on
    await world.until(app, job.id)
    assert await app.records.list("notes", "ada") == [Record("a", {"read": 2})]
    story = kinds(await app.jobs.events(job.id))
    assert story == ["submitted", "retry", "page_read", "notes_read", "succeeded"]


async def three_pages(ctx: Context) -> Chunk:
    """Tells and counts the same of every page, whenever it is read."""
    await ctx.clock.sleep(10)
    return Chunk(
        events=[ChunkEvent("page_read", {"page": ctx.chunks})],
        counts={"skipped_content": 3, f"of_page_{ctx.chunks}": 1},
        cursor=ctx.chunks + 1 if ctx.chunks < 2 else None,
    )


async def counted_once(app: App, job: Job) -> None:
    """Check that each of the three pages was told and counted once."""
    assert job.state is JobState.SUCCESS
    assert job.summary.counts == {
        "skipped_content": 9,
        "of_page_0": 1,
        "of_page_1": 1,
        "of_page_2": 1,
    }
    told = [event.data for event in await app.jobs.events(job.id) if event.kind == "page_read"]
    assert told == [{"page": 0}, {"page": 1}, {"page": 2}]


@with_world
async def test_a_page_that_failed_on_its_way_counts_once(world: World) -> None:
    # Given a destination that fails on every other batch
    class Flaky:
        name = "flaky"
        calls = 0

        async def write(self, batch: object) -> None:
            self.calls += 1
            if self.calls % 2:
                raise Transient("not now")

    async def read(ctx: Context) -> Chunk:
        page = await three_pages(ctx)
        return Chunk(
            records=[Record("a", {})], events=page.events, counts=page.counts, cursor=page.cursor
        )

    sync = Sync(name="notes", source=ScriptedSource(read), destination=Flaky())
    app = await world.at_work(sync)
    job = await submit(app)

    # Then each page counts once, though each was read twice
    job = await world.until(app, job.id)
    assert job.summary.errors == 3
    await counted_once(app, job)


@pytest.mark.fault(6)
@with_world
async def test_a_page_whose_commit_lost_its_answer_counts_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that does the first try of every write, and loses the answer
    app = await world.app(Sync(name="notes", source=ScriptedSource(three_pages)))
    real, tried = app._runtime.jobs.settle, set[str]()

    async def settle(change: JobChange, work: ChunkWork | None = None) -> Job | None:
        after = await real(change, work)
        if change.before.chunk_key not in tried:
            tried.add(change.before.chunk_key)
            raise StoreUnavailable
        return after

    monkeypatch.setattr(app._runtime.jobs, "settle", settle)
    job = await submit(app)
    await app.supervisor().start()

    # Then each page counts once
    await counted_once(app, await world.until(app, job.id))
    assert len(tried) == 3


@with_world
async def test_a_wrong_count_fails_the_chunk_and_counts_nothing(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        wrong = -1 if len(source.calls) == 1 else 1
        return Chunk(counts={"seen": 5, "skipped": wrong})

    source = ScriptedSource(read)
    app = await world.at_work(Sync(name="notes", source=source))
    job = await submit(app)

    job = await world.until(app, job.id)

    assert (job.summary.errors, job.summary.counts) == (1, {"seen": 5, "skipped": 1})
    [_, retry, _] = await app.jobs.events(job.id)
    assert read_failure(str(retry.data["error"])).message == (
        "counts.skipped: write an int from 0 to 1,000,000,000, not -1"
    )


@with_world
async def test_a_source_can_tell_what_has_changed_before_it_gives_it(world: World) -> None:
    # Given a source that gives only what is new or has changed, and counts the rest
    async def read(ctx: Context) -> Chunk:
        stored = await ctx.stored_hashes([note.key for note in notes])
        changed = [note for note in notes if stored.get(note.key) != content_hash(note.data)]
        return Chunk(records=changed, counts={"unchanged": len(notes) - len(changed)})

    notes = [Record(str(number), {"text": f"note {number}"}) for number in range(2_000)]
    app = await world.at_work(Sync(name="notes", source=ScriptedSource(read)))
    first = await world.until(app, (await submit(app)).id)
    assert (first.summary.inserted, first.summary.counts) == (2_000, {"unchanged": 0})

    # When one note has changed and another has come
    notes[7] = Record("7", {"text": "another text"})
    notes.append(Record("new", {"text": "a new note"}))
    second = await world.until(app, (await submit(app)).id)

    # Then only these two were given
    assert (second.summary.records, second.summary.counts) == (2, {"unchanged": 1_999})
    assert (second.summary.updated, second.summary.inserted) == (1, 1)


@with_world
async def test_a_source_deletes_what_is_gone_with_the_chunk_that_tells_it(world: World) -> None:
    # Given a source that compares what there is with what is stored of it
    async def read(ctx: Context) -> Chunk:
        stored = await ctx.stored_records(["a", "b", "c", "never"])
        seen.append(stored)
        gone = [key for key in stored if key not in notes]
        return Chunk(
            records=[Record(key, {"text": text}) for key, text in notes.items()],
            # One that the same chunk stores stays.
            removed=[*gone, *notes],
        )

    seen: list[dict[str, JsonObject]] = []
    notes = {"a": "one", "b": "two"}
    app = await world.at_work(Sync(name="notes", source=ScriptedSource(read)))
    await world.until(app, (await submit(app)).id)

    # When a note is gone and another has come
    notes.clear()
    notes.update({"b": "two", "c": "three"})
    await world.until(app, (await submit(app)).id)

    # Then the source was told what was stored, and the one that is gone is deleted
    assert seen == [{}, {"a": {"text": "one"}, "b": {"text": "two"}}]
    assert await app.records.list("notes", "ada") == [
        Record("b", {"text": "two"}),
        Record("c", {"text": "three"}),
    ]
