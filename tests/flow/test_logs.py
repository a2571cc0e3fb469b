"""Structured logs: one event per chunk, with what an operator filters by, and no secret in it."""

import json
from io import StringIO
from pathlib import Path

from headgate import Chunk, Context, Sync, Transient
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

        # And the secret is nowhere: not in the log, the row or the events
        told = await app.jobs.events(job.id)
        for text in (stream.getvalue(), repr(job), repr(told)):
            assert CANARY not in text
        assert b"c4nary" not in next(tmp_path.glob("world-*.db")).read_bytes()

    log.configure(SystemClock(), json=True, level="info", stream=stream)
    try:
        in_world(tmp_path, main)
    finally:
        log.configure(SystemClock(), json=True, level="critical")
