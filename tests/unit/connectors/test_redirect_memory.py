"""Permanent redirects that are remembered for a part of an API, and forgotten after an error."""

from datetime import timedelta

import pytest

from headgate.base.errors import InvalidInput, RateLimited, Transient
from headgate.connectors.api import Redirects
from headgate.connectors.auth import InHeader
from headgate.connectors.provider import ApiProvider
from headgate.connectors.redirect_memory import RedirectMemory
from headgate.ports.transport import Response
from tests.unit.connectors.fakes import Bench, FakeAccess, answer

BASE = "https://api.example/v1"
PEER = "https://peer-7.example:3001"
PEERS = Redirects(hosts=("peer-*.example:3001",), keep_auth=True, remember="/graph/*")


def moved(path: str, status: int = 308, peer: str = PEER) -> Response:
    return answer(status, headers={"Location": f"{peer}{path}"})


def bench(*answers: Response | Exception, redirects: Redirects = PEERS) -> Bench:
    return Bench(*answers, access=FakeAccess(InHeader("X-Token")), redirects=redirects)


async def test_later_requests_for_the_same_part_go_straight_to_the_peer() -> None:
    at = bench(moved("/v1/graph/a/q"), answer(body=1))

    await at.http.post("/graph/a/q", json={})
    await at.http.post("/graph/a/pull", {"deep": True}, json={})

    assert at.transport.sent == [
        f"POST {BASE}/graph/a/q",
        f"POST {PEER}/v1/graph/a/q",
        f"POST {PEER}/v1/graph/a/pull?deep=true",
    ]
    assert at.transport.requests[2].headers.get("x-token") == "Bearer s3cret-1"


async def test_another_part_and_other_paths_are_asked_at_the_known_address() -> None:
    at = bench(moved("/v1/graph/a/q"), answer(body=1))

    await at.http.post("/graph/a/q", json={})
    for path in ("/graph/b/q", "/graph", "/user/a/q"):
        await at.http.post(path, json={})

    assert at.transport.sent[2:] == [
        f"POST {BASE}/graph/b/q",
        f"POST {BASE}/graph",
        f"POST {BASE}/user/a/q",
    ]


@pytest.mark.parametrize(
    ("redirect", "redirects"),
    [
        (moved("/v1/graph/a/q", status=307), PEERS),
        (moved("/v1/elsewhere"), PEERS),
        (moved("/v1/graph/a/q"), Redirects(hosts=PEERS.hosts)),
    ],
    ids=["temporary", "another path", "not wanted"],
)
async def test_what_need_not_hold_for_later_requests_is_not_remembered(
    redirect: Response, redirects: Redirects
) -> None:
    at = bench(redirect, answer(body=1), redirects=redirects)

    await at.http.post("/graph/a/q", json={})
    await at.http.post("/graph/a/q", json={})

    assert at.transport.sent[2] == f"POST {BASE}/graph/a/q"


async def test_a_chain_of_redirects_is_remembered_by_its_end() -> None:
    other = "https://peer-9.example:3001"
    at = bench(
        moved("/v1/graph/a/q"), moved("/v1/graph/a/q", peer=other), answer(body=1), answer(body=2)
    )

    await at.http.post("/graph/a/q", json={})
    await at.http.post("/graph/a/q", json={})

    assert at.transport.sent[3:] == [f"POST {other}/v1/graph/a/q"]


async def test_a_peer_that_sends_on_is_replaced() -> None:
    other = "https://peer-9.example:3001"
    at = bench(
        moved("/v1/graph/a/q"), answer(), moved("/v1/graph/a/q", peer=other), answer(), answer()
    )

    for _ in range(3):
        await at.http.post("/graph/a/q", json={})

    assert [each.rpartition("/v1")[0] for each in at.transport.sent] == [
        "POST https://api.example",
        f"POST {PEER}",
        f"POST {PEER}",
        f"POST {other}",
        f"POST {other}",
    ]


async def test_after_an_error_the_retry_asks_at_the_known_address() -> None:
    at = bench(moved("/v1/graph/a/q"), answer(), Transient("nobody listens"), answer(body=3))

    await at.http.post("/graph/a/q", json={})
    again = await at.http.post("/graph/a/q", json={}, repeatable=True)

    assert again.json() == 3
    assert at.transport.sent[2:] == [f"POST {PEER}/v1/graph/a/q", f"POST {BASE}/graph/a/q"]
    assert at.gate.asked[3]["retry"] is True


async def test_a_spent_limit_is_no_reason_to_forget() -> None:
    spent = answer(429, headers={"Retry-After": "5"})
    at = bench(moved("/v1/graph/a/q"), answer(), spent, answer())

    await at.http.post("/graph/a/q", json={})
    with pytest.raises(RateLimited) as raised:
        await at.http.post("/graph/a/q", json={})
    await at.http.post("/graph/a/q", json={})

    assert raised.value.after == timedelta(seconds=5)
    assert at.transport.sent[3] == f"POST {PEER}/v1/graph/a/q"


async def test_the_chunks_of_one_provider_share_what_they_learnt() -> None:
    at = bench(moved("/v1/graph/a/q"), answer(body=1))
    provider = ApiProvider("notes", base_url=BASE, redirects=PEERS)

    for _ in range(2):
        http = provider.open_http(at.http._client_options)
        await http.post("/graph/a/q", json={})

    assert at.transport.sent[2:] == [f"POST {PEER}/v1/graph/a/q"]


def test_the_part_that_was_unused_for_longest_is_forgotten_first() -> None:
    memory = RedirectMemory(BASE, "/*", parts_max=2)
    for name in ("a", "b"):
        memory.learn(f"{BASE}/{name}/q", f"{PEER}/{name}/q")
    assert memory.find(f"{BASE}/a/q") == f"{PEER}/a/q"

    memory.learn(f"{BASE}/c/q", f"{PEER}/c/q")

    assert memory.find(f"{BASE}/b/q") == f"{BASE}/b/q"
    assert memory.find(f"{BASE}/a/pull?x=1") == f"{PEER}/a/pull?x=1"
    assert memory.find(f"{BASE}x/a/pull") == f"{BASE}x/a/pull"


def test_a_pattern_that_names_no_part_is_refused() -> None:
    with pytest.raises(InvalidInput, match="remember"):
        Redirects(hosts=(), remember="/")


async def test_the_client_knows_whose_account_it_is() -> None:
    connected = Bench(access=FakeAccess(external_id="my-graph"))

    assert (connected.http.external_id, Bench().http.external_id) == ("my-graph", None)
