"""Google's OAuth: offline access, refresh tokens that stay, scopes and revocation."""

from urllib.parse import parse_qs, urlsplit

import pytest

from headgate_sandbox.google_health.access import CLIENT_ID, CLIENT_SECRET
from headgate_sandbox.google_health.data_types import ACTIVITY, LOCATION, METRICS
from headgate_sandbox.kit.faults import FaultKind
from tests.sandbox.clients import Answer, Client
from tests.sandbox.google_health.worlds import TYPES, make, problem

CLIENT = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
ASKED = {
    "client_id": CLIENT_ID,
    "redirect_uri": "http://localhost/back",
    "response_type": "code",
    "scope": f"{ACTIVITY} {LOCATION}",
    "access_type": "offline",
    "state": "xyz",
}
STEPS = f"{TYPES}/steps/dataPoints"


async def code_of(client: Client, **change: str) -> str:
    answer = await client.get("/o/oauth2/v2/auth", **{**ASKED, **change})
    assert answer.status == 302, answer.body
    return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


async def exchange(client: Client, code: str, **change: str) -> Answer:
    form = {**CLIENT, "grant_type": "authorization_code", "code": code, **change}
    return await client.post("/token", form=form)


async def refresh(client: Client, token: object) -> Answer:
    form = {**CLIENT, "grant_type": "refresh_token", "refresh_token": token}
    return await client.post("/token", form=form)


async def test_a_code_gives_tokens_for_an_hour() -> None:
    _, client, clock = make()

    tokens = (await exchange(client, await code_of(client))).json()
    client.token = tokens["access_token"]
    early = await client.get(STEPS)
    clock.advance(3_600)
    late = await client.get(STEPS)

    names = {"access_token", "expires_in", "scope", "token_type", "refresh_token"}
    assert tokens.keys() == names
    assert (tokens["expires_in"], tokens["scope"]) == (3_600, f"{ACTIVITY} {LOCATION}")
    assert (early.status, problem(late)) == (200, (401, "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED"))
    assert late.headers["www-authenticate"].startswith("Bearer ")


async def test_a_refresh_gives_a_new_access_token_and_keeps_the_refresh_token() -> None:
    _, client, clock = make()
    first = (await exchange(client, await code_of(client))).json()

    clock.advance(3_600)
    again = [(await refresh(client, first["refresh_token"])).json() for _ in range(2)]

    assert all("refresh_token" not in tokens for tokens in again)
    assert len({first["access_token"], *(tokens["access_token"] for tokens in again)}) == 3
    for tokens in again:
        client.token = tokens["access_token"]
        assert (await client.get(STEPS)).status == 200


async def test_without_offline_access_there_is_no_refresh_token_and_a_scope_must_be_known() -> None:
    sandbox, client, _ = make()

    tokens = (await exchange(client, await code_of(client, access_type="online"))).json()
    assert "refresh_token" not in tokens
    answer = await client.get("/o/oauth2/v2/auth", **{**ASKED, "scope": "everything"})
    assert (answer.status, answer.json()["error"]) == (400, "invalid_scope")
    # No token at all has words of its own.
    answer = await Client(sandbox).get(STEPS)
    assert problem(answer) == (401, "UNAUTHENTICATED", "CREDENTIALS_MISSING")


async def test_a_token_can_be_made_to_expire() -> None:
    sandbox, client, _ = make()
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)

    assert [(await client.get(STEPS)).status for _ in range(2)] == [401, 401]
    assert {seen.user for seen in sandbox.requests.entries} == {str(sandbox.world.user_ids[0])}


async def test_a_revoked_grant_is_over_by_either_token() -> None:
    _, client, _ = make()
    for kind in ("access_token", "refresh_token"):
        tokens = (await exchange(client, await code_of(client))).json()

        revoked = await client.post("/revoke", form={"token": tokens[kind]})
        refused = await refresh(client, tokens["refresh_token"])
        client.token = tokens["access_token"]

        assert revoked.status == 200
        described = {"error_description": "Token has been expired or revoked."}
        assert (refused.status, refused.json()) == (400, {"error": "invalid_grant", **described})
        assert (await client.get(STEPS)).status == 401
    assert (await client.post("/revoke", form={"token": "unknown"})).status == 400


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"code": "used"}, 400, "invalid_grant"),
    ],
)
async def test_a_bad_exchange_is_refused(form: dict[str, str], status: int, error: str) -> None:
    _, client, _ = make()

    answer = await exchange(client, **{"code": "x", **form})

    assert (answer.status, answer.json()["error"]) == (status, error)


@pytest.mark.parametrize(("data_type", "scope"), [("steps", ACTIVITY), ("weight", METRICS)])
async def test_each_kind_of_data_has_its_own_scope(data_type: str, scope: str) -> None:
    sandbox, client, _ = make()
    path = f"{TYPES}/{data_type}/dataPoints"

    client.token = sandbox.grant(scopes=(scope,)).access_token
    allowed = await client.get(path)
    others = tuple({ACTIVITY, METRICS, LOCATION} - {scope})
    client.token = sandbox.grant(scopes=others).access_token
    refused = await client.get(path)

    assert allowed.status == 200
    assert problem(refused) == (403, "PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT")
