"""Codes and tokens: how long they live, and what a refresh gives under each provider's rules."""

from datetime import UTC, datetime

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.tokens import Grant, OAuthRefused, TokenRules, Tokens, challenge_of

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def make(**rules: object) -> tuple[Tokens, ManualClock]:
    clock = ManualClock(START)
    return Tokens(clock, TokenRules(**rules), seed=1), clock  # type: ignore[arg-type]


def issue(tokens: Tokens) -> Grant:
    return tokens.issue("ada", "client", ("read",))


def refused_field(tokens: Tokens, refresh_token: str | None) -> str:
    with pytest.raises(OAuthRefused) as refused:
        tokens.refresh(refresh_token or "", "client")
    return refused.value.field


def test_an_access_token_is_good_until_it_expires() -> None:
    tokens, clock = make(access_s=100)
    access = issue(tokens).access_token

    clock.advance(99)
    assert tokens.find(access) is not None
    clock.advance(1)
    assert tokens.find(access) is None
    assert tokens.owner(access) is not None


def test_a_code_is_exchanged_once_by_its_client_in_time() -> None:
    tokens, clock = make(code_s=60)
    codes = [tokens.make_code("ada", "client", ("read",)) for _ in range(3)]

    assert tokens.exchange(codes[0], "client").user == "ada"
    for code, client, wait_s in (
        (codes[0], "client", 0),
        (codes[1], "other", 0),
        (codes[2], "client", 60),
    ):
        clock.advance(wait_s)
        with pytest.raises(OAuthRefused) as refused:
            tokens.exchange(code, client)
        assert refused.value.field == "code"


def test_a_challenge_is_opened_by_its_verifier_alone() -> None:
    tokens, _ = make()
    # The example of RFC 7636, appendix B.
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert challenge_of(verifier) == challenge

    for wrong in (None, "", challenge):
        code = tokens.make_code("ada", "client", (), challenge)
        with pytest.raises(OAuthRefused) as refused:
            tokens.exchange(code, "client", wrong)
        assert refused.value.field == "code_verifier"
    code = tokens.make_code("ada", "client", (), challenge)
    assert tokens.exchange(code, "client", verifier).user == "ada"


@pytest.mark.parametrize("rotates", [True, False])
def test_rotation_kills_the_old_refresh_token_at_once_and_without_it_stays(rotates: bool) -> None:
    tokens, _ = make(rotates=rotates)
    grant = issue(tokens)
    first_refresh, first_access = grant.refresh_token, grant.access_token

    tokens.refresh(first_refresh or "", "client")

    if rotates:
        assert grant.refresh_token != first_refresh
        assert refused_field(tokens, first_refresh) == "refresh_token"
        # The access token before is good until its own time.
        assert tokens.find(first_access) is grant
    else:
        tokens.refresh(first_refresh or "", "client")
        assert grant.refresh_token == first_refresh
        assert grant.access_token != first_access


def test_a_provider_can_keep_the_pair_while_it_has_long_to_live() -> None:
    tokens, clock = make(access_s=21_600, keep_above_s=3_600)
    grant = issue(tokens)
    pair = (grant.access_token, grant.refresh_token)

    clock.advance(21_600 - 3_601)
    tokens.refresh(pair[1] or "", "client")
    assert (grant.access_token, grant.refresh_token) == pair
    clock.advance(1)  # exactly an hour is left: no longer more than one
    tokens.refresh(pair[1] or "", "client")

    assert grant.access_token != pair[0]
    assert refused_field(tokens, pair[1]) == "refresh_token"


def test_the_old_refresh_token_can_give_the_same_answer_until_the_new_pair_is_used() -> None:
    tokens, _ = make(old_lives_until_used=True)
    grant = issue(tokens)
    old = grant.refresh_token or ""

    answers = set()
    for _ in range(3):
        tokens.refresh(old, "client")
        answers.add((grant.access_token, grant.refresh_token))
    tokens.find(grant.access_token)

    assert len(answers) == 1
    assert refused_field(tokens, old) == "refresh_token"


def test_some_providers_have_no_refresh_tokens_and_no_expiry() -> None:
    tokens, clock = make(access_s=None, refreshable=False)
    grant = issue(tokens)
    # Equal seeds give equal tokens.
    assert issue(make(access_s=None, refreshable=False)[0]).access_token == grant.access_token

    clock.advance(10 * 365 * 86_400)

    assert grant.refresh_token is None
    assert tokens.find(grant.access_token) is grant


def test_a_token_can_be_made_to_expire_and_refreshed() -> None:
    tokens, _ = make(keep_above_s=60)
    grant = issue(tokens)
    access = grant.access_token

    tokens.expire(access)

    assert tokens.find(access) is None
    tokens.refresh(grant.refresh_token or "", "client")
    assert tokens.find(grant.access_token) is grant


def test_what_is_revoked_is_gone_and_nobody_elses_is() -> None:
    tokens, _ = make()
    mine, other = issue(tokens), tokens.issue("bo", "client", ())

    tokens.revoke("ada", "client")

    assert tokens.find(mine.access_token) is None
    assert refused_field(tokens, mine.refresh_token) == "refresh_token"
    assert tokens.find(other.access_token) is other
