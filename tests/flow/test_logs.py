"""Structured logs: one event per chunk, with what an operator filters by, and no secret in it."""

import json
from io import StringIO
from pathlib import Path

from headgate import Chunk, Context, Record, Sync, Transient
from headgate.base import log
from headgate.base.clock import SystemClock
from tests.worlds import ScriptedSource, World, in_world

CANARY = "s3cr3t-c4nary"


def test_every_chunk_is_one_event_with_its_facts_and_no_secret(tmp_path: Path) -> None:
    stream = StringIO()

    async def main(world: World) -> None:
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
        job = (await app.jobs.submit("pages", user_id="ada", connection_id="c")).job
        await app.supervisor().start()
        job = await world.until(app, job.id)

        # Then each attempt is one line of JSON
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        chunks = [line for line in lines if line["event"] == "chunk"]
        assert [chunk["outcome"] for chunk in chunks] == ["retry", "succeeded"]
        first = chunks[0]
        assert first["job"] == job.id
        assert (first["user"], first["lane"], first["sync"]) == ("ada", "hot", "pages")
        assert first["duration_ms"] == 2000.0
        assert first["reason"] == "retrying"
        assert {chunk["level"] for chunk in chunks} == {"debug"}

        # And at the level that people see: a start, the problem at once, and what was done
        seen = [line for line in lines if line["level"] != "debug"]
        assert [line["event"] for line in seen][:3] == ["started", "chunk_failed", "working"]
        assert (seen[1]["level"], seen[1]["job"]) == ("warning", job.id)

        # And the secret is nowhere: not in the log, the row or the events
        told = await app.jobs.events(job.id)
        for text in (stream.getvalue(), repr(job), repr(told)):
            assert CANARY not in text
        assert b"c4nary" not in next(tmp_path.glob("world-*.db")).read_bytes()

    log.configure(SystemClock(), json=True, level="debug", stream=stream)
    try:
        in_world(tmp_path, main)
    finally:
        log.configure(SystemClock(), json=True, level="critical")


def test_a_worker_tells_of_its_work_every_few_seconds_and_how_it_ended(tmp_path: Path) -> None:
    stream = StringIO()

    def told(event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    async def main(world: World) -> None:
        async def read(ctx: Context) -> Chunk:
            await ctx.clock.sleep(0.1)
            record = Record(f"r{len(source.calls)}", {})
            return Chunk(records=[record], cursor=None if len(source.calls) == 200 else 1)

        source = ScriptedSource(read)
        app = await world.app(Sync(name="pages", source=source))
        supervisor = app.supervisor()
        await supervisor.start()
        await world.clock.sleep(600)
        # Nothing is told while nothing is done
        assert told("started") and told("working") == []

        job = (await app.jobs.submit("pages", user_id="ada", connection_id="c")).job
        await world.until(app, job.id)
        await world.clock.sleep(600)
        await supervisor.stop()

    log.configure(SystemClock(), json=True, level="info", stream=stream)
    try:
        in_world(tmp_path, main)
    finally:
        log.configure(SystemClock(), json=True, level="critical")
    # 200 chunks in 20 s are a few lines, and none of them is lost
    working = told("working")
    assert told("chunk") == [] and 4 <= len(working) <= 7
    [stopped] = told("stopped")
    for name, count in (("chunks", 200), ("records", 200), ("jobs_ended", 1), ("failed", 0)):
        assert sum(line[name] for line in working) == stopped[name] == count  # type: ignore[misc]
