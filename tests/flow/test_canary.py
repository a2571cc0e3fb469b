"""Canaries in every credential: after a life full of trouble, they are found nowhere."""

import base64
import json
import logging
import sqlite3
import traceback
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from typer.testing import CliRunner

from headgate import ApiSource, App, Chunk, Context, InvalidInput, Secret, Sync, Transient
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.cli.main import cli
from headgate.connectors import ApiToken, InQuery, Response
from headgate.flow.connections.sealing import unseal
from headgate.model.connection import Tokens
from headgate.ports.connections.auth import AuthContext, Consent
from headgate.ports.transport import Request
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection
from headgate_sandbox.kit.faults import FaultKind
from tests.connecting import (
    BACK,
    STRAVA,
    Site,
    database_bytes,
    key_entries,
    strava_auth,
    strava_source,
    submit,
    vault,
)
from tests.worlds import World, in_world

CLIENT_SECRET = "c4nary-cl1ent-s3cret"
HANDED_OVER = "c4nary-h4nded-0ver"
SESSION = "c4nary-br0wser-sess1on"


class Echo(ApiSource):
    """Reads a page that throws everything it was sent back at us."""

    async def read(self, ctx: Context) -> Chunk:
        # By a name that says nothing: here no pattern helps, only not telling the query.
        await ctx.http.get("/echo", {"q": HANDED_OVER})
        return Chunk()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An error page that quotes the request, headers and all."""
    quoted = repr((scope["query_string"], scope["headers"])).encode()
    headers = [(b"x-echo", scope["query_string"]), (b"location", b"/?" + scope["query_string"])]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": quoted})


class Life:
    """What was told and shown in the course of it, and what must not be."""

    def __init__(self) -> None:
        self.secrets: set[str] = {CLIENT_SECRET, HANDED_OVER, SESSION}
        self.told: list[str] = []

    def show(self, *things: object) -> None:
        """Everything that can be seen of these."""
        for thing in things:
            self.told += [repr(thing), str(thing), f"{thing}", repr([thing])]
            if isinstance(thing, BaseException):
                self.told += traceback.format_exception(thing)
            self.told += [repr(each) for each in parts(thing)]

    def found(self, texts: list[str]) -> list[str]:
        """The secrets that are in there, plain or in a coat."""
        return [
            f"{form} in {text[:80]!r}…"
            for secret in sorted(self.secrets)
            for form in coats(secret)
            for text in texts
            if form in text
        ]


def parts(thing: object) -> list[object]:
    """What an object is made of. Plain texts and bytes are what it exists to hold."""
    if isinstance(thing, msgspec.Struct):
        made_of = [getattr(thing, name) for name in thing.__struct_fields__]
    else:
        made_of = list(getattr(thing, "__dict__", {}).values())
    return [each for each in made_of if not isinstance(each, str | bytes | dict)]


def coats(secret: str) -> list[str]:
    raw = secret.encode()
    return [secret, raw.hex(), base64.b64encode(raw).decode().rstrip("=")]


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


async def live(world: World, life: Life) -> None:
    """Connect, read, renew, fail in every way, lose the grant, connect again."""
    site = Site(world)
    # A provider whose client has our canary, and one that quotes what it was sent.
    site.strava.oauth._clients = {strava_auth().client_id: CLIENT_SECRET}
    auth = strava_auth(client_secret=Secret(CLIENT_SECRET))
    apps: dict[str, Any] = {STRAVA: site.strava, "https://echo.example": echo}
    site.wire._transport = AsgiTransport(apps, world.clock)
    echoing = Echo("echo", base_url="https://echo.example", auth=ApiToken(placement=InQuery()))
    source = strava_source(auth)
    app = await world.app(
        Sync(name="all", source=source),
        Sync(name="echo", source=echoing),
        transport=site.wire,
        vault=vault("k1"),
    )
    site.wire.after = lambda request, response: note(life, request, response)
    await app.supervisor().start()

    url = await app.connections.start("strava", user_id="ada", session=SESSION, redirect_uri=BACK)
    answered = await site.consent(url)
    life.secrets |= {answered["code"], answered["state"]}

    # One that the user never came back from stays in the database for a while.
    unfinished = await app.connections.start(
        "strava", user_id="ada", session=SESSION, redirect_uri=BACK
    )
    life.secrets.add(dict(parse_qsl(urlsplit(unfinished).query))["state"])

    async def finish(session: str) -> Connection:
        return await app.connections.finish(
            user_id="ada", session=session, redirect_uri=BACK, query=answered
        )

    connection = await finish(SESSION)
    for session in ("wrong", SESSION):
        with pytest.raises(InvalidInput) as raised:
            await finish(session)
        life.show(raised.value)
    roam = await app.connections.connect_with_token("echo", Secret(HANDED_OVER), user_id="ada")

    jobs = [await submit(app, connection), await submit(app, roam, "echo")]
    for kind in (FaultKind.TOKEN_EXPIRED, FaultKind.MALFORMED, FaultKind.ERROR_IN_200):
        site.strava.faults.next(kind, times=2)
    await world.clock.sleep(6 * 3600)
    for kind in (FaultKind.OUTAGE, FaultKind.TIME_OUT, FaultKind.RATE_LIMITED):
        site.strava.faults.next(kind, times=2)
        jobs.append(await submit(app, connection))
        await world.until(app, jobs[-1].id, limit_s=1e6)
    site.wire.before = breaking(life)
    jobs.append(await submit(app, connection))
    await world.until(app, jobs[-1].id)
    assert connection.external_id is not None
    site.strava.tokens.revoke(connection.external_id, auth.client_id)
    jobs.append(await submit(app, connection))
    await world.until(app, jobs[-1].id)

    for job in jobs:
        row = await app.jobs.get(job.id)
        life.show(row, await app.jobs.events(job.id), await app.jobs.status(row.id))
    await show_everything(app, life, site)
    life.show(source, auth, echoing, connection, roam, site.wire, *site.wire.sent)


def note(life: Life, request: Request, response: Response) -> None:
    life.show(request, response, request.headers, response.headers)
    if request.url.endswith("/oauth/token") and response.status == 200:
        body = response.json()
        life.secrets |= {body["access_token"], body["refresh_token"]}


def breaking(life: Life) -> Any:
    left = [3]

    def before(request: Request) -> None:
        if left[0]:
            left[0] -= 1
            # A driver that is not careful quotes the request in its error.
            bearer = request.headers.get("authorization") or ""
            raise Transient(f"GET {request.url} failed: Authorization: {bearer}")

    return before


async def show_everything(app: App, life: Life, site: Site) -> None:
    """Every object that holds a secret, and what it is made of."""
    credentials = app._runtime.credentials
    assert credentials is not None
    [connection, _] = await app.connections.of_user("ada")
    linked = await credentials.store.get_sealed(connection.id, user_id="ada")
    held = unseal(credentials.vault, linked)
    access = held.access.reveal()
    life.secrets.add(access)
    tokens = Tokens(access=held.access, refresh=held.refresh)
    consent = Consent(redirect_uri=BACK, state=Secret(access), verifier=Secret(access))
    auth_context = credentials.auth_context
    assert isinstance(auth_context, AuthContext)
    life.show(
        app,
        app._runtime,
        app._runtime.registry,
        app.connections,
        credentials,
        credentials.vault,
        auth_context,
        linked,
        held,
        tokens,
        consent,
        strava_auth().place_token(held.access),
        InQuery().place(held.access),
        Secret(access),
    )


@pytest.mark.security(11)
def test_no_secret_is_found_anywhere(
    tmp_path: Path, logs: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life()
    in_world(tmp_path, lambda world: live(world, life))
    keys = key_entries("k2", "k1")
    life.secrets |= {entry.partition(":")[2] for entry in keys}
    assert len(life.secrets) >= 10

    # In what was shown, and in what was logged
    assert life.found(life.told) == []
    logged = logs.getvalue()
    assert '"event": "request"' in logged or '"event":"request"' in logged
    assert life.found(logged.splitlines()) == []

    # In the database: its bytes, and its rows
    [file] = tmp_path.glob("world-*.db")
    raw = database_bytes(tmp_path)
    assert not [secret for secret in life.secrets if secret.encode() in raw]
    with sqlite3.connect(file) as database:
        dump = list(database.iterdump())
    assert any("conn_" in line for line in dump)
    assert life.found(dump) == []

    # In what the command line tells
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(keys))
    address, runner = f"sqlite:///{file}", CliRunner()
    listed = runner.invoke(cli, ["job", "list", "-d", address, "--json"])
    said = [listed.output]
    for job in json.loads(listed.stdout)["data"]:
        for command in ("show", "events"):
            told = runner.invoke(cli, ["job", command, job["id"], "-d", address, "--json"])
            said.append(told.output)
    rotated = runner.invoke(cli, ["keys", "rotate", "-d", address, "--json"])
    assert json.loads(rotated.stdout)["resealed"] == 2
    assert life.found([*said, rotated.output]) == []
    # And rotated, they are in the database as little as before.
    assert not [secret for secret in life.secrets if secret.encode() in database_bytes(tmp_path)]


def test_the_search_finds_what_is_there() -> None:
    # A canary test that cannot sing proves nothing.
    life = Life()
    life.show({"token": CLIENT_SECRET}, Exception(HANDED_OVER.encode().hex()))

    assert len({line.partition(" ")[0] for line in life.found(life.told)}) == 2
