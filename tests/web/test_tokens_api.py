"""Tokens that are handed over under /v1: kept encrypted, and found nowhere else."""

import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from headgate import Conflict, Mode, Sync
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.log_events import LogEvent
from headgate.errors import StoreUnavailable
from headgate.flow.connections.service import Connections
from headgate.secrets.keys import KeyRing
from headgate.web.server import build
from tests.collecting import TOKEN, notes_sync
from tests.connecting import Site, database_bytes, strava_source, vault
from tests.flow.test_canary import coats
from tests.web.callers import Served, history, problem
from tests.worlds import World, in_world, with_world

PATH = "/v1/connections/tokens"
BODY = {"source": "notes", "token": TOKEN, "external_id": "my-notes"}
KEY = {"Idempotency-Key": "connect-1"}


async def served(world: World) -> tuple[Site, Served]:
    """A provider with tokens, one with a page, and one that users do not connect to."""
    site = Site(world)
    strava = Sync(name="days", source=strava_source(), modes=[Mode.HISTORY])
    app = await world.app(
        notes_sync(), strava, history("open-data"), transport=site.wire, vault=vault()
    )
    return site, Served(app, build(app, keys=KeyRing.for_demo()))


@with_world
async def test_a_token_that_is_handed_over_connects_an_account(world: World) -> None:
    _, on_web = await served(world)
    ada = await on_web.client()

    made = await ada.post(PATH, json=BODY)

    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["user_id"], told["source"], told["state"]) == ("ada", "notes", "active")
    assert (told["external_id"], told["expires_at"]) == ("my-notes", None)
    found = await ada.get(made.headers["location"])
    assert found.json() == told
    unchanged = {"If-None-Match": found.headers["etag"]}
    assert (await ada.get(made.headers["location"], headers=unchanged)).status_code == 304
    # What is stored is not the token.
    credentials = on_web.app._runtime.credentials
    assert credentials is not None
    linked = await credentials.store.get_sealed(told["id"], user_id="ada")
    assert TOKEN.encode() not in linked.sealed.access


@with_world
async def test_another_token_goes_to_the_connection_that_is_there(world: World) -> None:
    site, on_web = await served(world)
    ada = await on_web.client()
    first = (await ada.post(PATH, json=BODY)).json()

    for body in (
        {**BODY, "token": "second"},
        {"source": "notes", "token": "third", "connection_id": first["id"]},
    ):
        again = await ada.post(PATH, json=body)
        assert (again.status_code, again.json()["id"]) == (200, first["id"])
        assert again.headers["location"] == f"/v1/connections/{first['id']}"
        assert again.json()["external_id"] == "my-notes"
    # Neither one of another account nor one of another provider.
    named = {**BODY, "connection_id": first["id"]}
    problem(await ada.post(PATH, json={**named, "external_id": "other"}), 409, "conflict")
    elsewhere = {**BODY, "connection_id": (await site.connect(on_web.app)).id}
    wrong = problem(await ada.post(PATH, json=elsewhere), 422, "invalid_input")
    assert wrong["field"] == "connection_id"


@with_world
async def test_each_way_to_connect_says_which_is_the_other(world: World) -> None:
    _, on_web = await served(world)
    ada = await on_web.client()

    async def refused(path: str, **body: str) -> str:
        told = problem(await ada.post(path, json=body), 422, "invalid_input")
        assert told["field"] == "source"
        detail: str = told["detail"]
        return detail

    page = await refused(PATH, source="strava", token=TOKEN)
    assert page.endswith("ask POST /v1/connections for a link to it")
    token = await refused("/v1/connections", source="notes")
    assert token.endswith("send the token to POST /v1/connections/tokens")
    # Neither of the two: one that is not there, and one that asks for nobody's leave.
    for source in ("nowhere", "open-data"):
        for path, more in ((PATH, {"token": TOKEN}), ("/v1/connections", {})):
            said = await refused(path, source=source, **more)
            assert said.endswith("is not one that users connect to; there are: notes, strava")


#: What is wrong, and the field of it.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({**BODY, "token": ""}, "token"),
    ({**BODY, "token": "a" * 4097}, "token"),
    ({**BODY, "token": f"{TOKEN}\r\nX-Admin: yes"}, "token"),
    ({**BODY, "token": f"{TOKEN} "}, "token"),
    ({**BODY, "token": f"{TOKEN}ü"}, "token"),
    ({**BODY, "token": 7}, "token"),
    ({**BODY, "token": [TOKEN]}, "token"),
    ({**BODY, "external_id": ""}, "external_id"),
    ({"source": "notes"}, "token"),
    ({"token": TOKEN}, "source"),
    ({**BODY, "password": TOKEN}, "password"),
]


@with_world
async def test_a_body_that_is_none_is_refused_with_the_field(world: World) -> None:
    _, on_web = await served(world)
    ada = await on_web.client()
    for body, field in WRONG:
        answer = await ada.post(PATH, json=body)

        told = problem(answer, 422, "invalid_input")
        assert told["field"] == field, body
        # In words: the name of the field is not taken for the name of a secret.
        assert told["detail"].startswith(f"{field}: ") and "redacted" not in told["detail"]
        assert TOKEN not in answer.text
    assert (await ada.get("/v1/connections")).json()["data"] == []


@pytest.fixture
def logs() -> Iterator[StringIO]:
    """Everything that is logged, by us or by anybody, at the lowest level."""
    stream = StringIO()
    log.configure(SystemClock(), json=True, level="debug", stream=stream)
    root, handler = logging.getLogger(), logging.StreamHandler(stream)
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)
    log.configure(SystemClock(), json=True, level="critical")


def test_the_token_is_found_nowhere(
    tmp_path: Path, logs: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def main(world: World) -> None:
        _, on_web = await served(world)
        ada = await on_web.client()

        async def send(body: Any, headers: Any = None, **more: Any) -> Any:
            answer = await ada.post(PATH, json=body, headers=headers, **more)
            told.append(answer.text + repr(answer.headers))
            return answer

        # A good one, again, and as another request with the same key
        first = await send(BODY, KEY)
        again = await send(BODY, KEY)
        assert (first.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert (await send({**BODY, "external_id": "x"}, KEY)).status_code == 422
        # Bad ones, whose refusal is remembered
        for number, bad in enumerate(
            (
                {**BODY, "source": "strava"},
                {**BODY, "source": "nowhere"},
                {**BODY, "token": f"{TOKEN}\n"},
                {**BODY, "token": {"is": TOKEN}},
                {**BODY, "external_id": 7},
                {**BODY, "connection_id": "conn_404"},
                [TOKEN],
            )
        ):
            answer = await send(bad, {"Idempotency-Key": f"bad-{number}"})
            assert answer.status_code in (404, 422), answer.text
        for content in (f'{{"token": "{TOKEN}", "token"', f'{{"token": "{TOKEN}\\u0000"}}'):
            broken = await ada.post(
                PATH, content=content, headers={"Content-Type": "application/json"}
            )
            told.append(problem(broken, 400, "malformed_json")["detail"])
        # And failures of our own
        for error, status in (
            (RuntimeError("broken"), 500),
            (StoreUnavailable(), 503),
            (Conflict("not now"), 409),
        ):

            async def fail(*_: Any, error: Exception = error, **__: Any) -> Any:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(Connections, "_save", fail)
                assert (await send(BODY)).status_code == status
        told.append((await ada.get("/v1/connections")).text)
        told.append((await ada.get("/openapi.json")).text)

    in_world(tmp_path, main)

    logged = logs.getvalue()
    assert LogEvent.CONNECTED in logged and LogEvent.REQUEST_FAILED in logged
    raw = database_bytes(tmp_path)
    assert b"connect-1" in raw
    for form in coats(TOKEN):
        assert not [text for text in (*told, logged) if form in text]
        assert form.encode() not in raw
