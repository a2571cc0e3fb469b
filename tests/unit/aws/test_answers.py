"""Answers of the API behind Lambda: what fits is sent whole, and what does not is told."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message

from headgate import App, Chunk, Context, Mode, Record, Sync
from headgate.aws.answer_limit import AnswerLimit
from headgate.aws.container import Container
from headgate.aws.site import make_site
from headgate.base.clock import SystemClock
from headgate.model.api_key import Role
from tests.aws_calls import CallContext, gateway_event
from tests.connecting import key_entries
from tests.worlds import ScriptedSource, World, in_world

#: What Lambda allows for an answer, as JSON.
LAMBDA_BYTES_MAX = 6_291_556
RECORDS = 60
PATH = "/v1/syncs/notes/records"
#: In JSON within JSON, a quote takes four bytes, and others up to seven.
TEXTS = {"of quotes": '"' * 60_000, "in Chinese": "日" * 40_000, "of control": "\x01" * 20_000}


def fetch(site: ASGIApp, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the body that are sent for a request."""
    sent: list[Message] = []

    async def main() -> None:
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop()

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await site(scope, receive, send)

    asyncio.run(main())
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)


def test_an_answer_that_fits_is_sent_as_it_is() -> None:
    async def pieces() -> AsyncGenerator[str, None]:
        for each in ("ab", "cd"):
            yield each

    async def site(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"asked"
        await StreamingResponse(pieces(), media_type="text/csv")(scope, receive, send)

    assert fetch(AnswerLimit(site, bytes_max=4), b"asked") == (200, b"abcd")
    status, told = fetch(AnswerLimit(site, bytes_max=3), b"asked")
    assert (status, json.loads(told)["code"]) == (422, "answer_too_large")
    assert "headgate records export" in json.loads(told)["next"]


def test_no_more_is_read_for_an_answer_that_is_too_large() -> None:
    made = 0

    async def pieces() -> AsyncGenerator[str, None]:
        nonlocal made
        while True:
            made += 1
            assert made < 1000, "goes on for ever"
            # As a database does, it lets others go on meanwhile.
            for _ in range(10):
                await SystemClock().sleep(0)
            yield "piece"

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await StreamingResponse(pieces(), media_type="application/jsonl")(scope, receive, send)

    status, _ = fetch(AnswerLimit(site, bytes_max=12))
    assert status == 422
    assert 3 <= made < 20


@pytest.fixture
def container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Container]:
    """An application with large records."""

    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record(f"{n:03}", {"text": request.param}) for n in range(RECORDS)])

    sync = Sync(name="notes", source=ScriptedSource(read), modes=[Mode.FULL])

    async def main(world: World) -> str:
        app = await world.app(sync)
        supervisor = app.supervisor()
        await supervisor.start()
        submitted = await app.jobs.submit("notes", user_id="ada", connection_id="ada")
        await world.until(app, submitted.job.id)
        await supervisor.stop()
        return app.database.address

    address = in_world(tmp_path, main)
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(key_entries("k1")))
    made = Container(lambda: App(address, syncs=[sync]))
    yield made
    made.close()


async def make_key(app: App) -> str:
    _, key = await app.api_keys.make("product", role=Role.ADMIN)
    return key.reveal()


@pytest.mark.parametrize("container", TEXTS.values(), ids=TEXTS.keys(), indirect=True)
def test_every_page_of_large_records_fits_and_an_export_of_them_is_refused(
    container: Container,
) -> None:
    site, key = make_site(container), container.run(make_key)

    def call(query: str, **headers: str) -> tuple[int, Any]:
        event = gateway_event("GET", PATH, key=key, query=query, **headers)
        answer = site(event, CallContext(29.0))
        assert len(json.dumps(answer)) < LAMBDA_BYTES_MAX
        body = b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
        return answer["statusCode"], json.loads(body)

    seen: list[str] = []
    query = "limit=200"
    while query:
        status, page = call(query)
        assert status == 200
        seen += [each["key"] for each in page["data"]]
        query = f"limit=200&after={page['next_cursor']}" if page["next_cursor"] else ""
    assert seen == [f"{n:03}" for n in range(RECORDS)]
    status, told = call("", accept="application/jsonl")
    assert (status, told["code"]) == (422, "answer_too_large")


@pytest.mark.parametrize("container", ["short"], indirect=True)
def test_who_asks_for_a_stream_gets_the_events_so_far(container: Container) -> None:
    site, key = make_site(container), container.run(make_key)

    async def find(app: App) -> str:
        [job] = await app.jobs.list(limit=1)
        return job.id

    path = f"/v1/jobs/{container.run(find)}/events"
    event = gateway_event("GET", path, key=key, accept="text/event-stream")
    answer = site(event, CallContext(29.0))
    assert (answer["statusCode"], answer["headers"]["content-type"]) == (200, "application/json")
    assert json.loads(answer["body"])["data"]
