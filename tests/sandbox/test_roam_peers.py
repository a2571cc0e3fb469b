"""Roam's redirect over real sockets, to another port, followed by a client that others wrote."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import requests

from headgate.base.clock import ManualClock
from headgate_sandbox.roam.sandbox import Roam
from headgate_sandbox.serving import serving

SOON_S = 30
QUERY = {"query": "[:find ?uid :where [?p :node/title] [?p :block/uid ?uid]]"}


class Site:
    """One sandbox at two addresses, and a client."""

    def __init__(self, sandbox: Roam, base_url: str, session: requests.Session) -> None:
        self.sandbox = sandbox
        self.url = f"{base_url}/api/graph/graph-1/q"
        self.session = session

    def ask(self, header: str) -> requests.Response:
        headers = {header: f"Bearer {self.sandbox.token()}"}
        return self.session.post(self.url, json=QUERY, headers=headers, timeout=SOON_S)


@pytest.fixture
def site() -> Iterator[Site]:
    clock = ManualClock(datetime(2026, 1, 5, tzinfo=UTC))
    sandbox = Roam(clock, pages=12, cold_requests=0)
    with serving(sandbox) as front, serving(sandbox) as peer, requests.Session() as session:
        sandbox.peer = peer
        # Whatever proxies the environment names are not for loopback.
        session.trust_env = False
        yield Site(sandbox, front, session)


def test_the_body_and_roams_own_header_survive_the_redirect_and_the_usual_one_not(
    site: Site,
) -> None:
    answer = site.ask("X-Authorization")

    assert answer.status_code == 200
    assert len(answer.json()["result"]) == 12
    assert [step.status_code for step in answer.history] == [308]
    assert answer.url.startswith(site.sandbox.peer)
    answer = site.ask("Authorization")
    assert ([step.status_code for step in answer.history], answer.status_code) == ([308], 400)
