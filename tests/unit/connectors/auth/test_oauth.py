"""OAuth2 as it is spoken to the authorization server: pages, codes, refreshes, refusals."""

from base64 import b64encode
from datetime import timedelta
from random import Random
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import (
    AddressRefused,
    AuthExpired,
    Forbidden,
    GrantRefused,
    InvalidInput,
    Malformed,
    RateLimited,
    SourceError,
    Transient,
)
from headgate.base.secret import Secret
from headgate.connectors.auth.oauth import OAuth2, Rotation, challenge_of
from headgate.connectors.auth.tokens import ApiToken, InQuery
from headgate.model.connection import Tokens
from headgate.ports.connections.auth import AuthContext, CodeAuth, Consent
from tests.unit.connectors.fakes import START, Answer, ScriptedTransport, answer

BACK = "https://app.example/callback"
CONSENT = Consent(redirect_uri=BACK, state=Secret("st4te"), verifier=Secret("v3rifier" * 6))
GIVEN = {
    "token_type": "Bearer",
    "access_token": "acc3ss",
    "refresh_token": "r3fresh",
    "expires_in": 21600,
}


def auth(**fields: Any) -> OAuth2:
    given: dict[str, Any] = {
        "authorize_url": "https://www.example/oauth/authorize",
        "token_url": "https://www.example/oauth/token",
        "client_id": "4242",
        "client_secret": Secret("cl1ent"),
        "scopes": ("read", "activity:read"),
        "redirect_uris": (BACK,),
    }
    return OAuth2(**{**given, **fields})


def auth_context(*answers: Answer) -> tuple[AuthContext, ScriptedTransport]:
    transport = ScriptedTransport(*answers)
    return AuthContext(transport=transport, clock=ManualClock(START), rng=Random(1)), transport


async def refreshed(said: Answer, **fields: Any) -> tuple[Tokens, ScriptedTransport]:
    surroundings, transport = auth_context(said)
    return await auth(**fields).refresh(surroundings, Secret("old-r3fresh")), transport


async def exchanged(
    answered: dict[str, str] | None = None, said: Any = GIVEN, **fields: Any
) -> tuple[Tokens, ScriptedTransport]:
    surroundings, transport = auth_context(answer(body=said))
    tokens = await auth(**fields).exchange(surroundings, answered or {"code": "c0de"}, CONSENT)
    return tokens, transport


def form(transport: ScriptedTransport) -> dict[str, str]:
    return dict(parse_qsl(transport.requests[-1].body.decode()))


# ---- declaring ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"client_secret": "plain"}, InvalidInput),
        ({"client_id": ""}, InvalidInput),
        ({"refresh_margin_s": -1}, InvalidInput),
        ({"redirect_uris": ("https://app.example/#x",)}, InvalidInput),
        ({"redirect_uris": ("app.example/callback",)}, AddressRefused),
        ({"token_url": "https://user:pass@www.example/token"}, AddressRefused),
        ({"account_url": "www.example/self"}, AddressRefused),
    ],
)
def test_what_could_never_work_is_refused(wrong: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        auth(**wrong)
    assert "plain" not in str(raised.value)


async def test_a_token_that_was_handed_over_has_no_page_and_is_not_renewed() -> None:
    assert isinstance(auth(), CodeAuth)
    assert "cl1ent" not in repr(auth())
    assert not isinstance(ApiToken(), CodeAuth)
    with pytest.raises(AuthExpired):
        await ApiToken().refresh(auth_context()[0], Secret("x"))
    assert ApiToken(placement=InQuery("t")).place_token(Secret("x")).params == {"t": "x"}


# ---- the page ----------------------------------------------------------------------------------


def test_the_page_gets_the_challenge_and_not_the_verifier() -> None:
    # The example of RFC 7636, appendix B.
    verifier = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

    url = auth(consent_params={"access_type": "offline"}).consent_url(CONSENT)

    assert url.startswith("https://www.example/oauth/authorize?")
    assert parse_qs(urlsplit(url).query) == {
        "response_type": ["code"],
        "client_id": ["4242"],
        "redirect_uri": [BACK],
        "state": ["st4te"],
        "code_challenge": [challenge_of(CONSENT.verifier)],
        "code_challenge_method": ["S256"],
        "scope": ["read activity:read"],
        "access_type": ["offline"],
    }
    assert "v3rifier" not in url and "cl1ent" not in url
    # Scopes are parted as the provider wants.
    assert "scope=read%2Cactivity" in auth(scope_separator=",").consent_url(CONSENT)


# ---- the code ----------------------------------------------------------------------------------


async def test_a_code_is_exchanged_with_the_verifier_and_the_same_redirect() -> None:
    tokens, transport = await exchanged()

    assert form(transport) == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": BACK,
        "code_verifier": CONSENT.verifier.reveal(),
        "client_id": "4242",
        "client_secret": "cl1ent",
    }
    assert (tokens.access, tokens.refresh) == (Secret("acc3ss"), Secret("r3fresh"))
    assert tokens.expires_at == START + timedelta(hours=6)
    assert tokens.scopes == ("read", "activity:read")


async def test_the_account_and_what_the_user_unticked_are_read_from_the_first_answer() -> None:
    on_the_way, _ = await exchanged({"code": "c", "scope": "read"})
    said = {**GIVEN, "scope": "read x", "athlete": {"id": 77}}
    answered, _ = await exchanged(said=said, account_of=lambda body: body["athlete"]["id"])

    assert on_the_way.scopes == ("read",)
    assert (answered.scopes, answered.external_id) == (("read", "x"), "77")


ASKING: dict[str, Any] = {
    "account_url": "https://api.example:8443/users/self?v=1",
    "account_of": lambda body: body["user"].get("id"),
    "placement": InQuery(),
}


async def test_whose_tokens_they_are_is_asked_where_they_do_not_say_it() -> None:
    surroundings, transport = auth_context(
        answer(body={"access_token": "acc3ss"}), answer(body={"user": {"id": 77}})
    )

    tokens = await auth(**ASKING).exchange(surroundings, {"code": "c0de"}, CONSENT)

    assert tokens.external_id == "77"
    assert transport.sent[1] == "GET https://api.example:8443/users/self?v=1&oauth_token=acc3ss"
    assert auth(**ASKING).ports == {443, 8443}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (answer(503, b"<html>"), Transient),
        (answer(401, {"user": {"id": 77}}), Transient),
        (answer(200, {"user": {}}), Malformed),
        (answer(200, []), Malformed),
    ],
)
async def test_an_account_that_is_not_told_is_not_connected(
    said: Answer, kind: type[SourceError]
) -> None:
    surroundings, _ = auth_context(answer(body={"access_token": "acc3ss"}), said)

    with pytest.raises(kind) as raised:
        await auth(**ASKING).exchange(surroundings, {"code": "c0de"}, CONSENT)
    assert "acc3ss" not in str(raised.value)


ISSUER = {"issuer": "https://www.example"}


@pytest.mark.parametrize(
    ("fields", "answered", "error", "said"),
    [
        ({}, {"error": "access_denied", "code": "x"}, Forbidden, "access_denied"),
        ({}, {}, InvalidInput, "sent none"),
        (ISSUER, {"code": "c"}, Forbidden, "another provider"),
        (ISSUER, {"code": "c", "iss": "https://other.example"}, Forbidden, "another provider"),
    ],
)
async def test_without_the_users_consent_or_from_elsewhere_no_request_is_made(
    fields: dict[str, str], answered: dict[str, str], error: type[Exception], said: str
) -> None:
    surroundings, transport = auth_context()

    with pytest.raises(error, match=said):
        await auth(**fields).exchange(surroundings, answered, CONSENT)
    assert transport.requests == []


# ---- refreshing --------------------------------------------------------------------------------


async def test_a_refresh_brings_a_new_pair() -> None:
    tokens, transport = await refreshed(answer(body=GIVEN))

    assert form(transport)["grant_type"] == "refresh_token"
    assert form(transport)["refresh_token"] == "old-r3fresh"
    assert tokens == Tokens(
        access=Secret("acc3ss"),
        refresh=Secret("r3fresh"),
        expires_at=START + timedelta(hours=6),
    )


async def test_the_client_may_be_named_in_a_header() -> None:
    secret = Secret("a b:c/é")
    _, transport = await refreshed(
        answer(body=GIVEN), client_auth="basic", client_secret=secret, client_id="my id"
    )

    expected = b64encode(b"my+id:a+b%3Ac%2F%C3%A9").decode()
    assert transport.requests[0].headers.get("authorization") == f"Basic {expected}"
    assert "client_secret" not in form(transport)


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        (0, START),
        (-5, START),
        (60, START + timedelta(minutes=1)),
        ("60", START + timedelta(minutes=1)),
        (59.5, START + timedelta(seconds=59.5)),
        (10**12, START + timedelta(days=3650)),
        (None, None),
        ("soon", None),
        ([], None),
    ],
)
async def test_the_end_of_a_token_is_reckoned_by_our_clock(seconds: object, end: object) -> None:
    tokens, _ = await refreshed(answer(body={**GIVEN, "expires_in": seconds}))

    assert tokens.expires_at == end


async def test_without_a_new_refresh_token_the_old_one_stays_but_a_token_there_must_be() -> None:
    for refresh in (None, "", 7, "x" * 9_000):
        tokens, _ = await refreshed(answer(body={**GIVEN, "refresh_token": refresh}))
        assert tokens.refresh is None
    none: list[object] = [{}, [], "x", None, b"<html>", b""]
    for body in (*none, {"access_token": ""}, {"access_token": 7}):
        with pytest.raises(Malformed):
            await refreshed(answer(body=body))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": "invalid_grant"}, GrantRefused),
        (401, {"error": "invalid_grant"}, GrantRefused),
        (200, {"error": "invalid_grant"}, GrantRefused),
        (401, {"error": "invalid_client"}, Forbidden),
        (400, {"error": "unauthorized_client"}, Forbidden),
        (400, {"error": "invalid_request"}, Transient),
        (400, {"error": ["invalid_grant"]}, Transient),
        (400, b"<html>", Transient),
        (400, [], Transient),
        (403, {}, Transient),
        (404, {}, Transient),
        (408, {"error": "invalid_grant"}, Transient),
        (429, {}, RateLimited),
        (500, {"error": "invalid_grant"}, Transient),
        (503, b"<html>", Transient),
        (302, b"", Transient),
    ],
)
async def test_only_the_providers_own_word_is_about_the_grant(
    status: int, body: object, kind: type[SourceError]
) -> None:
    with pytest.raises(kind) as raised:
        await refreshed(answer(status, body))

    assert type(raised.value) is kind
    assert "r3fresh" not in str(raised.value)


async def test_a_network_error_is_no_error_of_the_credentials_and_a_limit_says_how_long() -> None:
    with pytest.raises(Transient) as raised:
        await refreshed(Transient("cut off"))
    assert not isinstance(raised.value, AuthExpired)
    with pytest.raises(RateLimited) as limited:
        await refreshed(answer(429, headers={"Retry-After": "30"}))
    assert limited.value.after == timedelta(seconds=30)


async def test_a_provider_may_say_no_in_its_own_words() -> None:
    def strava(response: Any) -> str | None:
        fields = {each.get("field") for each in response.json().get("errors", [])}
        return "invalid_grant" if "refresh_token" in fields else None

    said = {"message": "Bad Request", "errors": [{"field": "refresh_token", "code": "invalid"}]}

    with pytest.raises(GrantRefused):
        await refreshed(answer(400, said), error_of=strava)
    with pytest.raises(Transient):
        await refreshed(answer(400, {"errors": [{"field": "client_id"}]}), error_of=strava)


async def test_where_a_lost_answer_costs_the_grant_the_refusal_says_so() -> None:
    said = answer(400, {"error": "invalid_grant"})

    with pytest.raises(GrantRefused, match="may have been lost"):
        await refreshed(said, rotation=Rotation.AT_ONCE)
    with pytest.raises(GrantRefused) as raised:
        await refreshed(said, rotation=Rotation.UNTIL_USED)
    assert "lost" not in str(raised.value)
