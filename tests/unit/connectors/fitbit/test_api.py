"""What is known of Fitbit: Google's way in, Google's quotas, and what Google's answers mean."""

from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from starlette.responses import Response as Sandboxed

from headgate import AuthExpired, RateLimited, Scope, Secret
from headgate.connectors import Response, Rotation
from headgate.connectors.fitbit.api import BUDGET, account_of, classify, fitbit
from headgate.errors import Forbidden
from headgate.ports.connections.auth import Consent
from headgate_sandbox.google_health import answers
from tests.unit.connectors.fakes import Bench, FakeAccess, answer

BACK = "https://app.example/connected"


def said(response: Sandboxed) -> Response:
    """An answer of the sandbox's, as the client sees it."""
    return answer(response.status_code, bytes(response.body))


def test_the_real_one_is_on_three_hosts_and_the_sandbox_on_one() -> None:
    real = fitbit(client_id="1", client_secret=Secret("s"))
    emulated = fitbit(client_id="1", client_secret=Secret("s"), url="http://127.0.0.1:8002")

    assert real["base_url"] == "https://health.googleapis.com/v4"
    assert real["auth"].authorize_url == "https://accounts.google.com/o/oauth2/v2/auth"
    assert real["auth"].token_url == "https://oauth2.googleapis.com/token"
    assert real["auth"].rotation is Rotation.NEVER
    assert emulated["base_url"] == "http://127.0.0.1:8002/v4"
    assert emulated["auth"].authorize_url == "http://127.0.0.1:8002/o/oauth2/v2/auth"
    assert emulated["auth"].token_url == "http://127.0.0.1:8002/token"


def test_the_page_is_asked_for_a_refresh_token_and_for_everything_that_tcx_needs() -> None:
    auth = fitbit(client_id="1", client_secret=Secret("s"), redirect_uris=(BACK,))["auth"]

    page = auth.consent_url(
        Consent(redirect_uri=BACK, state=Secret("state"), verifier=Secret("verifier"))
    )

    asked = {name: value for name, [value] in parse_qs(urlsplit(page).query).items()}
    assert (asked["access_type"], asked["prompt"]) == ("offline", "consent")
    scopes = asked["scope"].split(" ")
    assert [each.rpartition("/googlehealth.")[2] for each in scopes] == [
        "activity_and_fitness.readonly",
        "health_metrics_and_measurements.readonly",
        "location.readonly",
        "openid",
    ]


def test_each_user_has_300_a_minute_and_the_application_120_000() -> None:
    limits = {limit.name: limit for limit in BUDGET.limits}

    assert {name: limit.amount for name, limit in limits.items()} == {
        "min per connection": 300,
        "min": 120_000,
        "day": 86_400_000,
    }
    assert limits["min per connection"].scope is Scope.CONNECTION
    # Backfill is spread over a user's own minute: it comes first of those that are equally long.
    assert BUDGET.limits[0] is limits["min per connection"]
    assert BUDGET.pace_s_min == 0.2


@pytest.mark.parametrize(
    "body", [b"<html>", {"error": {"status": "PERMISSION_DENIED"}}, {"error": {"details": [{}]}}]
)
async def test_a_quota_is_a_rate_limit_whatever_its_status_and_another_403_is_forbidden(
    body: Any,
) -> None:
    quota = answers.rate_limited("Requests per minute per user", 300)
    quota.status_code = 403
    bench = Bench(said(quota), answer(403, body), classify=classify)

    with pytest.raises(RateLimited):
        await bench.http.get("/users/me/identity")
    assert bench.gate.waits == [None]
    with pytest.raises(Forbidden):
        await bench.http.get("/users/me/identity")


async def test_a_box_that_was_not_ticked_is_for_the_user_to_mend() -> None:
    access = FakeAccess()
    lacking = answers.insufficient_scope().response
    bench = Bench(said(lacking), access=access, classify=classify)

    with pytest.raises(AuthExpired, match="every box ticked"):
        await bench.http.get("/users/me/identity")

    # Who else uses the same connection is not concerned.
    assert access.told == []


def id_token(claims: object) -> str:
    middle = urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
    return f"head.{middle}.signature"


@pytest.mark.parametrize(
    ("token", "account"),
    [
        (id_token({"sub": "1084", "email": "a@example"}), "1084"),
        (id_token({"email": "a@example"}), None),
        (id_token({"sub": 5}), None),
        ("head.%%%.signature", None),
        ("head.bm8.signature", None),
        ("no token", None),
        (None, None),
        (7, None),
    ],
)
def test_whose_account_it_is_stands_in_the_id_token(token: object, account: str | None) -> None:
    assert account_of({"access_token": "a", "id_token": token}) == account
    assert account_of({}) is None
