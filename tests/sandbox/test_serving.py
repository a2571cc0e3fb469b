"""Sandboxes over real sockets on loopback: served in a thread, alone, and calling back."""

import asyncio
import http.client
import re
import signal
import socket
import threading
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.faults import FaultKind
from headgate_sandbox.kit.outbound import loopback
from headgate_sandbox.serving import serve, serving
from headgate_sandbox.strava.sandbox import Strava
from tests import processes

#: A wait for something that is sure to come: reached only when the test fails.
SOON_S = 30


def fetch(url: str, token: str = "", body: bytes | None = None) -> tuple[int, object]:
    """GET, or POST where there is a body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SOON_S)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        path = f"{parts.path}?{parts.query}"
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())
    finally:
        connection.close()


def test_the_command_prints_a_token_and_a_request_that_work() -> None:
    asked_for = ("strava", "--port", "0", "--seed", "3", "--records", "5", "--users", "2")
    with processes.started("headgate", "sandbox", *asked_for) as process:
        said = "".join(process.stdout.readline() for _ in range(8))
        asked = re.search(r"curl -H 'Authorization: Bearer (\w+)' '(\S+)'", said)
        assert asked, said
        token, url = asked[1], asked[2]
        base_url = said.split()[2]
        planned = re.search(r"curl (\S+/faults) -d '(.*)'", said)
        assert planned, said

        status, listed = fetch(url, token)
        taken, _ = fetch(planned[1], body=planned[2].encode())
        struck = [fetch(url, token)[0] for _ in range(4)]
        _, stats = fetch(f"{base_url}/_sandbox/stats")
        process.send_signal(signal.SIGINT)
        code = process.wait()

    assert isinstance(listed, list)
    assert (status, len(listed)) == (200, 2)
    assert (taken, struck) == (201, [429, 429, 429, 200])
    assert isinstance(stats, dict)
    assert stats["requests"]["total"] == 5
    assert code == 130


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["strava", "--records", "-1"], "activities"), (["strava", "--port", "99999"], "--port")],
)
def test_the_command_says_what_is_wrong(arguments: list[str], problem: str) -> None:
    done = processes.run("headgate", "sandbox", *arguments)

    assert done.code == 2
    assert done.stderr.startswith(f"error {problem}: ")


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(InvalidInput, match="port"):
            serve("strava", taken.getsockname()[1], say=lambda line: None)


class Endless(ManualClock):
    """Never wakes a sleeper."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Watched(Strava):
    """Tells when it stopped waiting for a client that had left."""

    def __init__(self) -> None:
        super().__init__(Endless(datetime(2026, 1, 5, tzinfo=UTC)), activities=1)
        self.let_go = threading.Event()

    async def _answer(self, request: Request, receive: Receive) -> Response | None:
        answer = await super()._answer(request, receive)
        if answer is None:
            self.let_go.set()
        return answer


def test_a_client_that_gives_up_on_a_time_out_is_let_go() -> None:
    sandbox = Watched()
    token = sandbox.grant().access_token
    sandbox.faults.next(FaultKind.TIME_OUT)
    with serving(sandbox) as base_url:
        parts = urlsplit(base_url)
        with socket.create_connection((parts.hostname, parts.port), timeout=SOON_S) as impatient:
            impatient.sendall(b"GET /api/v3/athlete HTTP/1.1\r\nHost: sandbox\r\n\r\n")
        assert sandbox.let_go.wait(SOON_S)
        status, _ = fetch(f"{base_url}/api/v3/athlete", token)

    assert status == 200
    assert [seen.status for seen in sandbox.requests.entries] == [0, 200]


async def test_outbound_calls_stay_on_this_machine() -> None:
    for url in ("http://example.com/", "https://127.0.0.1/", "http://10.0.0.1/", "file:///etc"):
        with pytest.raises(ConnectionRefusedError, match="loopback only"):
            await loopback("GET", url, None)


async def test_outbound_calls_reach_a_server_on_loopback() -> None:
    sandbox = Strava(ManualClock(datetime(2026, 1, 5, tzinfo=UTC)), activities=1)
    with serving(sandbox) as base_url:
        found = await loopback("GET", f"{base_url}/_sandbox/stats?recent=1", None)
        posted = await loopback("POST", f"{base_url}/_sandbox/faults", b'{"kind": "outage"}')

    assert (found.status, posted.status) == (200, 201)
    assert sandbox.faults.stats() != []
    with pytest.raises(ConnectionError):
        await loopback("GET", base_url, None)
