"""Strava's OAuth: the page, the exchange, and refreshing with all its rules."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from headgate_sandbox.kit.faults import FaultKind
from headgate_sandbox.kit.tokens import challenge_of
from tests.sandbox.clients import Answer, Client
from tests.sandbox.strava.worlds import make

CLIENT = {"client_id": "4242", "client_secret": "sandbox-client-secret"}
ASKED = {
    "client_id": "4242",
    "redirect_uri": "http://localhost/back?from=strava",
    "response_type": "code",
    "scope": "read,activity:read_all",
    "state": "xyz",
}


def back(answer: Answer) -> dict[str, str]:
    assert answer.status == 302
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


async def exchange(client: Client, **fields: object) -> Answer:
    return await client.post(
        "/oauth/token", form={**CLIENT, "grant_type": "authorization_code", **fields}
    )


async def refresh(client: Client, token: object, **fields: object) -> Answer:
    return await client.post(
        "/oauth/token",
        form={**CLIENT, "grant_type": "refresh_token", "refresh_token": token, **fields},
    )


async def test_the_page_sends_back_a_code_that_gives_tokens_and_the_athlete() -> None:
    sandbox, client, _ = make()

    returned = back(await client.get("/oauth/authorize", **ASKED))
    tokens = (await exchange(client, code=returned["code"])).json()

    assert (returned["state"], returned["from"]) == ("xyz", "strava")
    assert returned["scope"] == "read,activity:read_all"
    names = {"token_type", "expires_at", "expires_in", "refresh_token", "access_token", "athlete"}
    assert set(tokens) == names
    assert tokens["expires_in"] == 21_600
    assert tokens["athlete"]["id"] == sandbox.world.athlete_ids[0]
    listed = await Client(sandbox, tokens["access_token"]).get("/api/v3/athlete/activities")
    assert listed.status == 200


async def test_the_page_can_be_another_athletes_who_may_untick_a_scope_or_deny_it_all() -> None:
    sandbox, client, _ = make(athletes=3)
    third = sandbox.world.athlete_ids[2]

    returned = back(await client.get("/oauth/authorize", **ASKED, sandbox_user=third))
    assert (await exchange(client, code=returned["code"])).json()["athlete"]["id"] == third
    assert (await client.get("/oauth/authorize", **ASKED, sandbox_user=7)).status == 400
    sandbox.oauth.unticked = {"activity:read_all"}
    assert back(await client.get("/oauth/authorize", **ASKED))["scope"] == "read"
    sandbox.oauth.approves = False
    denied = back(await client.get("/oauth/authorize", **ASKED))
    assert (denied["error"], denied["state"]) == ("access_denied", "xyz")
    assert "code" not in denied


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"client_id": "1"}, "client_id"),
        ({"redirect_uri": "javascript:alert(1)"}, "redirect_uri"),
        ({"redirect_uri": ""}, "redirect_uri"),
        ({"response_type": "token"}, "response_type"),
        ({"scope": "everything"}, "scope"),
        ({"code_challenge": "x", "code_challenge_method": "plain"}, "code_challenge_method"),
    ],
)
async def test_a_bad_page_address_is_refused_without_a_redirect(
    change: dict[str, str], field: str
) -> None:
    _, client, _ = make()

    answer = await client.get("/oauth/authorize", **{**ASKED, **change})

    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, field)


async def test_a_challenge_needs_its_verifier() -> None:
    _, client, _ = make()
    challenge = challenge_of("a-long-verifier")
    asked = {**ASKED, "code_challenge": challenge, "code_challenge_method": "S256"}

    without = back(await client.get("/oauth/authorize", **asked))["code"]
    with_it = back(await client.get("/oauth/authorize", **asked))["code"]

    assert (await exchange(client, code=without)).status == 400
    assert (await exchange(client, code=with_it, code_verifier="a-long-verifier")).status == 200


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_id": "1"}, ("Application", "client_id")),
        ({"client_secret": "x"}, ("Application", "client_secret")),
        ({"code": "x"}, ("RequestToken", "code")),
        ({"grant_type": "password"}, ("Application", "grant_type")),
    ],
)
async def test_a_bad_exchange_is_a_400_that_names_what_is_wrong(
    change: dict[str, str], error: tuple[str, str]
) -> None:
    _, client, _ = make()

    answer = await exchange(client, **change)

    assert answer.status == 400
    assert answer.json() == {
        "message": "Bad Request",
        "errors": [{"resource": error[0], "field": error[1], "code": "invalid"}],
    }


async def test_refreshing_early_gives_the_same_tokens_and_late_a_new_pair() -> None:
    sandbox, client, clock = make()
    old = sandbox.grant()
    old_access, old_refresh = old.access_token, old.refresh_token

    clock.advance(2 * 3_600)
    early = (await refresh(client, old_refresh)).json()
    clock.advance(3 * 3_600 + 1)
    new = (await refresh(client, old_refresh)).json()
    again = await refresh(client, old_refresh)

    assert (early["access_token"], early["refresh_token"]) == (old_access, old_refresh)
    assert early["expires_in"] == 4 * 3_600
    assert "athlete" not in early
    # A new pair kills the old refresh token.
    assert new["access_token"] != old_access
    error = {"resource": "RefreshToken", "field": "refresh_token", "code": "invalid"}
    assert (again.status, again.json()["errors"]) == (400, [error])
    for token in (old_access, new["access_token"]):
        assert (await Client(sandbox, token).get("/api/v3/athlete")).status == 200


async def test_a_token_expires_after_six_hours_or_by_a_fault() -> None:
    sandbox, client, clock = make()
    other = Client(sandbox, sandbox.grant().access_token)
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)

    struck = [(await client.get("/api/v3/athlete")).status for _ in range(2)]
    clock.advance(6 * 3_600 - 1)
    in_time = await other.get("/api/v3/athlete")
    clock.advance(1)
    too_late = await other.get("/api/v3/athlete")

    for token in (None, "unknown"):
        answer = await Client(sandbox, token).get("/api/v3/athlete")
        errors = [{"resource": "Application", "field": "", "code": "invalid"}]
        assert answer.status == 401
        assert answer.json() == {"message": "Authorization Error", "errors": errors}
    assert struck == [401, 401]
    assert (in_time.status, too_late.status) == (200, 401)
    # The log knows whose token it was.
    assert sandbox.requests.entries[-3].user == str(sandbox.world.athlete_ids[0])


async def test_deauthorizing_ends_every_token_and_answers_with_the_one_given() -> None:
    sandbox, client, _ = make()
    grant = sandbox.grant()

    answer = await client.post("/oauth/deauthorize", form={})
    after = await Client(sandbox, grant.access_token).get("/api/v3/athlete")
    again = await client.post("/oauth/deauthorize", form={})

    assert (answer.status, answer.json()) == (200, {"access_token": client.token})
    assert answer.headers["x-ratelimit-usage"] == "1,1"
    assert (after.status, again.status) == (401, 401)
    assert (await refresh(client, grant.refresh_token)).status == 400


async def test_deauthorizing_takes_the_token_as_a_field_too_and_a_reset_takes_it_back() -> None:
    sandbox, client, _ = make()
    await client.post("/_sandbox/activities", json={"name": "gone soon"})

    form = {"access_token": client.token}
    assert (await Client(sandbox).post("/oauth/deauthorize", form=form)).status == 200

    before = await client.get("/api/v3/athlete")
    await client.post("/_sandbox/reset")
    after = await client.get("/api/v3/athlete/activities")
    assert (before.status, after.status) == (401, 200)
    assert "gone soon" not in after.body.decode()
    assert after.headers["x-ratelimit-usage"] == "1,1"
