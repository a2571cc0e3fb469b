"""The way to a graph: the redirect, the token, the limit of its own, and a graph that is cold."""

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.roam.querying import PAGE_UIDS
from headgate_sandbox.roam.sandbox import PEER
from tests.sandbox.clients import Client
from tests.sandbox.roam.worlds import GRAPH, ask, make, path_of

QUERY = {"query": PAGE_UIDS}


async def test_the_known_address_sends_every_request_on() -> None:
    sandbox, client, _ = make()

    sent_on = await client.post(f"{GRAPH}/q", json=QUERY)
    answer = await client.post(path_of(sent_on.headers["location"]), json=QUERY)

    assert (sent_on.status, answer.status) == (308, 200)
    assert sent_on.headers["location"] == f"http://sandbox{PEER}{GRAPH}/q"
    # A detour costs nothing: a client that knows its peer and one that does not pay alike.
    assert sandbox.meter.read("graph-1").used == {"minute": 1}
    assert [seen.user for seen in sandbox.requests.entries] == ["graph-1", "graph-1"]


async def test_the_peer_can_have_an_address_of_its_own_or_be_below_another_path() -> None:
    sandbox, client, _ = make()
    sandbox.peer = "http://peer-9.example:3001"

    sent_on = await client.post(f"{GRAPH}/q", json=QUERY)
    assert sent_on.headers["location"] == f"http://peer-9.example:3001{GRAPH}/q"
    sandbox.peer = "http://sandbox"  # the host that this client asks for
    assert (await client.post(f"{GRAPH}/q", json=QUERY)).status == 200

    _, client, _ = make(peer="/peer-21")
    sent_on = await client.post(f"{GRAPH}/q", json=QUERY)
    assert path_of(sent_on.headers["location"]) == f"/peer-21{GRAPH}/q"
    assert (await client.post(f"/peer-21{GRAPH}/q", json=QUERY)).status == 200


@pytest.mark.parametrize(
    ("token", "status"),
    [(None, 400), ("something", 400), ("roam-graph-token-wrong", 401)],
)
async def test_a_bad_token_is_a_400_or_a_401(token: str | None, status: int) -> None:
    sandbox, _, _ = make()

    answer = await ask(Client(sandbox, token), "q", **QUERY)

    assert (answer.status, answer.json().keys()) == (status, {"message"})
    assert sandbox.meter.read("graph-1").used == {"minute": 0}


async def test_a_token_opens_its_own_graph_alone_until_it_is_taken_back() -> None:
    sandbox, client, _ = make(graphs=2)

    other = await client.post(f"{PEER}/api/graph/graph-2/q", json=QUERY)
    missing = await client.post(f"{PEER}/api/graph/graph-3/q", json=QUERY)
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)
    revoked = [(await ask(client, "q", **QUERY)).status for _ in range(2)]

    assert (other.status, missing.status, revoked) == (401, 400, [401, 401])


async def test_a_graph_is_asked_so_often_a_minute() -> None:
    sandbox, client, clock = make(graphs=2)
    other = Client(sandbox, sandbox.token("graph-2"))

    statuses = [(await ask(client, "q", **QUERY)).status for _ in range(52)]
    refused = await ask(client, "q", **QUERY)
    elsewhere = await other.post(f"{PEER}/api/graph/graph-2/q", json=QUERY)
    clock.advance(60)
    later = await ask(client, "q", **QUERY)

    assert statuses == [200] * 50 + [429] * 2
    assert "retry-after" not in refused.headers
    assert refused.json().keys() == {"message"}
    assert (elsewhere.status, later.status) == (200, 200)
    assert sandbox.meter.overshoot("graph-1") == sandbox.meter.overshoot() == 3


async def test_a_graph_is_not_ready_at_first_and_unknown_paths_have_a_message_too() -> None:
    sandbox, client, _ = make(cold_requests=2)

    answers = [await ask(client, "q", **QUERY) for _ in range(3)]
    missing = await client.post(f"{PEER}{GRAPH}/elsewhere", json={})
    wrong = await client.get(f"{PEER}{GRAPH}/q")

    assert [answer.status for answer in answers] == [503, 503, 200]
    assert "not ready" in answers[0].json()["message"]
    assert (missing.status, wrong.status) == (404, 405)
    assert missing.json().keys() == wrong.json().keys() == {"message"}
    sandbox.reset()
    assert (await ask(client, "q", **QUERY)).status == 503


async def test_faults_can_strike_before_the_redirect_or_after_it() -> None:
    sandbox, client, _ = make()
    sandbox.faults.add(
        Fault(kind=FaultKind.SERVER_ERROR, path=f"{PEER}/*", times=1),
        Fault(kind=FaultKind.RATE_LIMITED, path=f"{PEER}/*", times=2),
    )

    sent_on = await client.post(f"{GRAPH}/q", json=QUERY)
    struck = [await ask(client, "q", **QUERY) for _ in range(3)]

    assert sent_on.status == 308
    assert [answer.status for answer in struck] == [500, 429, 200]
    assert "took too long to run" in struck[0].json()["message"]
