"""Forms: fields from the query and the body alike, and limits on both."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import ManualClock
from headgate_sandbox.kit import forms
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.routing import post
from tests.sandbox.clients import Client
from tests.sandbox.toys import Toy


class Mirror(Toy):
    """Shows what it read."""

    def routes(self) -> Sequence[Route]:
        return [post("/mirror", self._mirror)]

    async def _mirror(self, request: Request) -> Response:
        form = await forms.read_form(request)
        sizes = {name: [file.name, len(file.content)] for name, file in form.files.items()}
        return json_answer({"fields": form.fields, "files": sizes})


@pytest.fixture
def client() -> Client:
    return Client(Mirror(ManualClock(datetime(2026, 1, 5, tzinfo=UTC))))


async def test_the_body_wins_over_the_query_and_files_come_beside_their_fields(
    client: Client,
) -> None:
    urlencoded = await client.post("/mirror", form={"a": "body"}, a="query", b="query")
    as_json = await client.post("/mirror", json={"a": "body", "n": 3}, a="query")
    answer = await client.post("/mirror", form={"a": "1"}, files={"file": ("x.tcx", b"12345")})

    assert urlencoded.json()["fields"] == {"a": "body", "b": "query"}
    assert as_json.json()["fields"] == {"a": "body", "n": "3"}
    assert answer.json() == {"fields": {"a": "1"}, "files": {"file": ["x.tcx", 5]}}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("multipart/form-data", b"no boundary"),
    ],
)
async def test_a_body_that_cannot_be_read_is_a_400(client: Client, kind: str, body: bytes) -> None:
    answer = await client.send("POST", "/mirror", body=body, kind=kind)

    assert answer.status == 400
    assert answer.json()["error"]


async def test_a_body_that_is_too_large_is_a_413(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "BODY_BYTES_MAX", 100)

    for kind in ("application/json", "application/x-www-form-urlencoded"):
        answer = await client.send("POST", "/mirror", body=b"x" * 101, kind=kind)
        assert answer.status == 413
