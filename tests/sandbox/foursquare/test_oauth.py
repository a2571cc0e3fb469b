"""Foursquare's OAuth: one token for ever, without a refresh; and where a token may be put."""

from urllib.parse import parse_qs, urlsplit

import pytest

from headgate_sandbox.foursquare.access import CLIENT_ID, CLIENT_SECRET
from headgate_sandbox.kit.faults import FaultKind
from tests.sandbox.clients import Client
from tests.sandbox.foursquare.worlds import CHECKINS, V, make, problem

APP = {"client_id": CLIENT_ID}
ASKED = {**APP, "redirect_uri": "http://localhost/back", "response_type": "code"}
CLIENT = {**APP, "client_secret": CLIENT_SECRET, "grant_type": "authorization_code"}


async def test_a_code_gives_a_token_and_nothing_else() -> None:
    sandbox, client, clock = make()
    page = await client.get("/oauth2/authenticate", **ASKED)
    code = parse_qs(urlsplit(page.headers["location"]).query)["code"][0]

    tokens = await client.get("/oauth2/access_token", **CLIENT, code=code)
    again = await client.get("/oauth2/access_token", **CLIENT, code=code)
    clock.advance(10 * 365 * 86_400)
    stranger = Client(sandbox)
    by_query = await stranger.get(CHECKINS, v=V, oauth_token=tokens.json()["access_token"])

    assert tokens.json().keys() == {"access_token"}
    assert (again.status, again.json()) == (400, {"error": "invalid_grant"})
    assert by_query.status == 200


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
    ],
)
async def test_a_bad_exchange_is_refused(change: dict[str, str], status: int, error: str) -> None:
    _, client, _ = make()

    answer = await client.post("/oauth2/access_token", form={**CLIENT, **change})

    assert (answer.status, answer.json()) == (status, {"error": error})


async def test_no_token_or_a_dead_one_is_invalid() -> None:
    sandbox, client, _ = make()
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)

    expired = [problem(await client.get(CHECKINS, v=V)) for _ in range(2)]
    missing = problem(await Client(sandbox).get(CHECKINS, v=V))

    assert [*expired, missing] == [(401, "invalid_auth")] * 3
    assert sandbox.meter.read().used["day"] == 0
