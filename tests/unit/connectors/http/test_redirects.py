"""Permanent redirects that are remembered for a part of an API, and forgotten after an error."""

from datetime import timedelta

import pytest

from headgate.base.errors import InvalidInput, RateLimited, Transient
from headgate.connectors.auth.tokens import InHeader
from headgate.connectors.http.api import Redirects
from headgate.connectors.http.provider import ApiProvider
from headgate.connectors.http.redirects import RedirectMemory
from headgate.ports.transport import Response
from tests.unit.connectors.fakes import Bench, FakeAccess, answer

BASE = "https://api.example/v1"
PEER = "https://peer-7.example:3001"
PEERS = Redirects(hosts=("peer-*.example:3001",), keep_auth=True, remember="/graph/*")


def moved(path: str, status: int = 308, peer: str = PEER) -> Response:
    return answer(status, headers={"Location": f"{peer}{path}"})


#: To the peer, as most tests begin.
MOVED = moved("/v1/graph/a/q")


async def ask(at: Bench, times: int = 1) -> None:
    """Ask for one and the same."""
    for _ in range(times):
        await at.http.post("/graph/a/q", json={})


def bench(*answers: Response | Exception, redirects: Redirects = PEERS) -> Bench:
    return Bench(*answers, access=FakeAccess(InHeader("X-Token")), redirects=redirects)


async def test_later_requests_for_the_same_part_go_straight_to_the_peer_and_no_others() -> None:
    at = bench(MOVED, answer(body=1))

    await ask(at)
    await at.http.post("/graph/a/pull", {"deep": True}, json={})
    for path in ("/graph/b/q", "/graph", "/user/a/q"):
        await at.http.post(path, json={})

    assert at.transport.sent == [
        f"POST {BASE}/graph/a/q",
        f"POST {PEER}/v1/graph/a/q",
        f"POST {PEER}/v1/graph/a/pull?deep=true",
        f"POST {BASE}/graph/b/q",
        f"POST {BASE}/graph",
        f"POST {BASE}/user/a/q",
    ]
    assert at.transport.requests[2].headers.get("x-token") == "Bearer s3cret-1"


@pytest.mark.parametrize(
    ("redirect", "redirects"),
    [
        (moved("/v1/graph/a/q", status=307), PEERS),
        (moved("/v1/elsewhere"), PEERS),
        (MOVED, Redirects(hosts=PEERS.hosts)),
    ],
    ids=["temporary", "another path", "not wanted"],
)
async def test_what_need_not_hold_for_later_requests_is_not_remembered(
    redirect: Response, redirects: Redirects
) -> None:
    at = bench(redirect, answer(body=1), redirects=redirects)

    await ask(at, 2)

    assert at.transport.sent[2] == f"POST {BASE}/graph/a/q"


async def test_a_chain_is_remembered_by_its_end_and_a_peer_that_sends_on_is_replaced() -> None:
    other = "https://peer-9.example:3001"
    on = moved("/v1/graph/a/q", peer=other)
    chain = bench(MOVED, on, answer(), answer())
    later = bench(MOVED, answer(), on, answer(), answer())

    await ask(chain, 2)
    await ask(later, 3)

    asked = [each.removesuffix("/v1/graph/a/q") for each in chain.transport.sent]
    assert asked == [f"POST {each}" for each in ("https://api.example", PEER, other, other)]
    asked = [each.removesuffix("/v1/graph/a/q") for each in later.transport.sent]
    assert asked == [f"POST {each}" for each in ("https://api.example", PEER, PEER, other, other)]


async def test_after_an_error_the_retry_asks_at_the_known_address() -> None:
    at = bench(MOVED, answer(), Transient("nobody listens"), answer(body=3))

    await ask(at)
    again = await at.http.post("/graph/a/q", json={}, repeatable=True)

    assert again.json() == 3
    assert at.transport.sent[2:] == [f"POST {PEER}/v1/graph/a/q", f"POST {BASE}/graph/a/q"]
    assert at.gate.asked[3]["retry"] is True


async def test_a_spent_limit_is_no_reason_to_forget() -> None:
    spent = answer(429, headers={"Retry-After": "5"})
    at = bench(MOVED, answer(), spent, answer())

    await ask(at)
    with pytest.raises(RateLimited) as raised:
        await ask(at)
    await ask(at)

    assert raised.value.after == timedelta(seconds=5)
    assert at.transport.sent[3] == f"POST {PEER}/v1/graph/a/q"


async def test_the_chunks_of_one_provider_share_what_they_learnt() -> None:
    at = bench(MOVED, answer(body=1))
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
