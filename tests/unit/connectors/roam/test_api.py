"""What is known of Roam: its way in, its limit, its peers, and what its answers mean."""

from datetime import timedelta
from typing import Any

import pytest

from headgate import AuthExpired, Limit, Malformed, RateLimited, Scope, Terminal, Transient
from headgate.connectors import Response
from headgate.connectors.auth.tokens import InHeader
from headgate.connectors.http.api import Api
from headgate.connectors.roam.api import (
    NOT_READY_S,
    REDIRECTS,
    SlowRequest,
    classify,
    graph_path,
    roam,
)
from headgate.connectors.roam.settings import RoamSettings
from headgate.errors import Forbidden, SourceError
from headgate.net.urls import origin_of
from tests.unit.connectors.fakes import Bench, FakeAccess, answer


def bench(*answers: Response | Exception, graph: str | None = "my-graph") -> Bench:
    access = FakeAccess(InHeader("X-Authorization"), renewable=False, external_id=graph)
    api = roam()
    return Bench(
        *answers, access=access, base_url=api["base_url"], classify=classify,
        redirects=api["redirects"], timeouts=api["timeouts"],
    )  # fmt: skip


async def ask(at: Bench) -> Response:
    return await at.http.post(graph_path(at.http, "q"), json={}, repeatable=True)


def said(status: int, message: str) -> Response:
    return answer(status, {"message": message})


def test_a_graph_has_fifty_requests_a_minute_unless_the_settings_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(roam()["budget"].limits) == [
        Limit(50, per="min", scope=Scope.CONNECTION, rolling=True)
    ]

    monkeypatch.setenv("HEADGATE_ROAM_URL", "http://127.0.0.1:8004/")
    monkeypatch.setenv("HEADGATE_ROAM_REQUESTS_PER_MIN", "200")
    api = RoamSettings().roam()

    assert api["base_url"] == "http://127.0.0.1:8004/api/graph"
    assert api["budget"].limits[0].amount == 200


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("https://peer-7.api.roamresearch.com:3001", True),
        ("https://peer-74.api.roamresearch.com:3002", True),
        ("https://peer-7.api.roamresearch.com", False),
        ("http://peer-7.api.roamresearch.com:3001", False),
        ("https://peer-7.evil.example:3001", False),
        ("https://peer-7.api.roamresearch.com.evil.example:3001", False),
        ("https://roamresearch.com:3001", False),
    ],
)
def test_the_token_goes_to_roams_peers_alone(peer: str, allowed: bool) -> None:
    api = Api(base_url=roam()["base_url"], redirects=REDIRECTS)

    assert api.allows_redirect(origin_of(peer)) is allowed


async def test_the_graph_is_the_connections_external_id() -> None:
    at = bench(answer(body={"result": []}), graph="my graph/2")

    await ask(at)

    assert at.transport.sent == ["POST https://api.roamresearch.com/api/graph/my%20graph%2F2/q"]
    assert at.transport.requests[0].headers.get("x-authorization") == "Bearer s3cret-1"
    with pytest.raises(Terminal, match="name of the graph as its external id"):
        await ask(bench(graph=None))


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        (said(400, "Encrypted graphs are not supported"), Forbidden, "that is not, such as a copy"),
        (said(400, "Invalid graph name"), Terminal, "no graph of that name"),
        (said(400, "graph my-graph does not exist"), Terminal, "no graph of that name"),
        (said(404, "Graph not found"), Terminal, "no graph of that name"),
        (said(400, "Cannot parse :find"), Terminal, "Cannot parse :find"),
        (said(400, "Invalid token: :"), Terminal, "does not accept the request: Invalid token"),
        (said(404, "Route missing"), Terminal, "nothing here"),
        (answer(400, b"<html>Bad</html>"), Terminal, "not accepted"),
        (said(200, "Something broke"), Malformed, "under status 200: Something broke"),
        (said(200, "Encrypted graph"), Forbidden, "encrypted"),
        (answer(200, b"<html>Login</html>"), Malformed, "no valid JSON"),
        (said(403, "Nope"), Forbidden, "access is refused"),
    ],
)  # fmt: skip
async def test_an_error_that_stays_is_told_at_once_with_what_to_do(
    response: Response, error: type[SourceError], text: str
) -> None:
    at = bench(response)

    with pytest.raises(error, match=text):
        await ask(at)
    assert len(at.transport.requests) == 1


@pytest.mark.parametrize(
    "response",
    [
        said(401, "You are not authenticated"),
        answer(401, b""),
        said(400, "Token cannot be verified"),
        said(400, "Invalid API token"),
        said(400, "The roam-graph-token is improperly formatted"),
        said(200, "You are not authenticated"),
    ],
)
def test_a_token_that_is_not_accepted_must_be_made_anew(response: Response) -> None:
    verdict = classify(response)

    assert isinstance(verdict, AuthExpired)
    assert "Settings, Graph, API tokens" in str(verdict)


async def test_a_graph_that_is_not_ready_is_asked_again_after_a_few_seconds() -> None:
    ready = answer(body={"result": []})
    at = bench(said(503, "not ready"), answer(503, b"<html></html>"), ready)
    began = at.clock.now()

    assert (await ask(at)).status == 200

    assert at.clock.now() - began >= timedelta(seconds=2 * NOT_READY_S)


async def test_a_slow_request_is_not_repeated_as_it_is_and_a_spent_limit_is_told() -> None:
    slow = bench(said(500, "Query took too long to run"))
    with pytest.raises(SlowRequest) as raised:
        await ask(slow)
    assert (len(slow.transport.requests), raised.value.retry_after_s) == (1, 60.0)

    spent = bench(said(429, "Too many requests"))
    with pytest.raises(RateLimited):
        await ask(spent)
    assert spent.gate.waits == [None]
    # Roam may say itself how long.
    verdict = classify(answer(503, b"", {"Retry-After": "9"}))
    assert isinstance(verdict, Transient)
    assert verdict.retry_after_s is None


async def test_no_error_tells_a_token_and_an_answer_with_a_result_is_none() -> None:
    for status in (200, 400):
        at = bench(said(status, "Bad clause (roam-graph-token-s3cret) Bearer s3cret"))
        with pytest.raises(SourceError) as raised:
            await ask(at)
        assert "s3cret" not in str(raised.value)
    bodies: list[Any] = [{"result": [], "message": "x"}, {"result": [["message"]]}, b""]
    for body in (*bodies, {"tempids-to-uids": {}}):
        assert classify(answer(body=body)) is None
