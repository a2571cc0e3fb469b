"""Structured logs: one event per chunk, with what an operator filters by, and no secret in it."""

from headgate import Chunk, Context, Record, Sync, Transient
from tests.connecting import database_bytes
from tests.flow.logs import lines, told
from tests.worlds import ScriptedSource, World, with_world

CANARY = "s3cr3t-c4nary"


@with_world
async def test_every_chunk_is_one_event_with_its_facts_and_no_secret(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(2)
        if len(source.calls) == 1:
            raise Transient(
                f"GET https://user:{CANARY}@api.test/v1?access_token={CANARY} failed\n"
                f"Authorization: Bearer {CANARY}"
            )
        return Chunk()

    source = ScriptedSource(read)
    app = await world.app(Sync(name="pages", source=source))
    job = (await app.jobs.submit("pages", user_id="ada")).job
    with told() as stream:
        await app.supervisor().start()
        job = await world.until(app, job.id)

    # Then each attempt is one line of JSON
    chunks = lines(stream, "chunk")
    assert [chunk["outcome"] for chunk in chunks] == ["retry", "succeeded"]
    first = chunks[0]
    assert first["job"] == job.id
    assert (first["user"], first["lane"], first["sync"]) == ("ada", "hot", "pages")
    assert first["duration_ms"] == 2000.0
    assert first["reason"] == "retrying"
    assert {chunk["level"] for chunk in chunks} == {"debug"}

    # And at the level that people see: a start, the problem at once, and what was done
    seen = [line for line in lines(stream) if line["level"] != "debug"]
    assert [line["event"] for line in seen][:3] == ["started", "chunk_failed", "working"]
    assert (seen[1]["level"], seen[1]["job"]) == ("warning", job.id)

    # And the secret is nowhere: not in the log, the row or the events
    story = await app.jobs.events(job.id)
    for text in (stream.getvalue(), repr(job), repr(story)):
        assert CANARY not in text
    assert b"c4nary" not in database_bytes(world._file.parent)


@with_world
async def test_a_worker_tells_of_its_work_every_few_seconds_and_how_it_ended(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(0.1)
        record = Record(f"r{len(source.calls)}", {})
        return Chunk(records=[record], cursor=None if len(source.calls) == 200 else 1)

    source = ScriptedSource(read)
    app = await world.app(Sync(name="pages", source=source))
    supervisor = app.supervisor()
    with told("info") as stream:
        await supervisor.start()
        await world.clock.sleep(600)
        # Nothing is told while nothing is done
        assert lines(stream, "started") and lines(stream, "working") == []

        job = (await app.jobs.submit("pages", user_id="ada")).job
        await world.until(app, job.id)
        await world.clock.sleep(600)
        await supervisor.stop()

    # 200 chunks in 20 s are a few lines, and none of them is lost
    working = lines(stream, "working")
    assert lines(stream, "chunk") == [] and 4 <= len(working) <= 7
    [stopped] = lines(stream, "stopped")
    for name, count in (("chunks", 200), ("records", 200), ("jobs_ended", 1), ("failed", 0)):
        assert sum(line[name] for line in working) == stopped[name] == count
