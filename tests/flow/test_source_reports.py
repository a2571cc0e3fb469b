"""What a source tells of its own: events and counts, in the transaction of their chunk."""

from pathlib import Path

from headgate import App, Chunk, ChunkEvent, Context, Job, JobState, Record, Sync
from tests.worlds import ScriptedSource, World, in_world, kinds


async def submit(app: App, sync: str = "notes") -> Job:
    submitted = await app.submit(sync, user_id="ada", connection_id="ada-1")
    return submitted.job


def test_a_source_s_events_are_part_of_the_job_s_story(tmp_path: Path) -> None:
    async def main(world: World) -> None:
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
        story = await app.events(job.id)
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

    in_world(tmp_path, main)


def test_a_wrong_event_fails_the_chunk_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        # Given a source that first tells of something under a name of the engine's
        async def read(ctx: Context) -> Chunk:
            kind = "succeeded" if len(source.calls) == 1 else "notes_read"
            return Chunk(
                records=[Record("a", {"read": len(source.calls)})],
                events=[ChunkEvent("page_read"), ChunkEvent(kind)],
            )

        source = ScriptedSource(read)
        app = await world.app(Sync(name="notes", source=source))
        job = await submit(app)
        await app.supervisor().start()

        # When the chunk was refused, then it counts as failed, and leaves nothing behind
        job = await world.until(app, job.id, JobState.PENDING)
        while job.attempts == 0:
            await world.clock.sleep(0.1)
            job = await app.get(job.id)
        assert job.error == (
            "Malformed: events[1].kind: 'succeeded' is the engine's own; "
            "choose another name, such as source_succeeded"
        )
        assert kinds(await app.events(job.id)) == ["submitted", "retry"]
        assert await app.records("notes", "ada-1") == []

        # And once the source is right, the job goes on
        await world.until(app, job.id)
        assert await app.records("notes", "ada-1") == [Record("a", {"read": 2})]
        story = kinds(await app.events(job.id))
        assert story == ["submitted", "retry", "page_read", "notes_read", "succeeded"]

    in_world(tmp_path, main)
