"""The OAuth endpoints in the words of the standard, for providers that have none of their own."""

from datetime import UTC, datetime

import pytest
from starlette.requests import Request

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.oauth import OAuth, bearer
from headgate_sandbox.kit.tokens import OAuthRefused, TokenRules, Tokens

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def make(rules: TokenRules | None = None) -> OAuth:
    clock = ManualClock(START)
    tokens = Tokens(clock, rules or TokenRules(), seed=1)
    return OAuth(clock, tokens, clients={"me": "secret"}, find_user=lambda name: name or "ada")


def request(*headers: tuple[bytes, bytes], query: bytes = b"") -> Request:
    scope = {"type": "http", "method": "POST", "path": "/token", "query_string": query}
    return Request({**scope, "headers": list(headers)})


def test_a_token_body_has_what_the_grant_has() -> None:
    oauth = make()
    grant = oauth.tokens.issue("ada", "me", ("read", "write"))
    foreverness = make(TokenRules(access_s=None, refreshable=False))
    forever = foreverness.tokens.issue("ada", "me", ())

    assert oauth.token_body(grant, first=True) == {
        "token_type": "Bearer",
        "access_token": grant.access_token,
        "expires_in": 3_600,
        "refresh_token": grant.refresh_token,
        "scope": "read write",
    }
    assert foreverness.token_body(forever, first=True).keys() == {
        "token_type",
        "access_token",
        "scope",
    }


async def test_an_error_has_its_standard_status_and_word() -> None:
    for error, status in (("invalid_client", 401), ("invalid_grant", 400)):
        answer = make().refused(OAuthRefused(error, "code"))
        assert answer.status_code == status
        assert f'"error":"{error}"'.encode() in bytes(answer.body)

    query = b"client_id=me&client_secret=secret&grant_type=refresh_token"
    answer = await make(TokenRules(refreshable=False)).token(request(query=query))
    assert b"unsupported_grant_type" in bytes(answer.body)


@pytest.mark.parametrize(
    ("header", "token"),
    [(b"Bearer abc", "abc"), (b"bearer abc", "abc"), (b"Basic abc", ""), (b"", "")],
)
def test_only_a_bearer_token_is_one(header: bytes, token: str) -> None:
    assert bearer(request((b"authorization", header))) == token
