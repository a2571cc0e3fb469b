"""What is known of Strava: the way in, the limits, and what its answers mean."""

from typing import Any

import pytest

from headgate import RateLimited, Scope, Secret, Terminal
from headgate.connectors import Headers, Rotation
from headgate.connectors.strava.api import (
    BUDGET,
    COUNTS,
    account_of,
    classify,
    error_of,
    strava,
)
from headgate.errors import Forbidden
from headgate_sandbox.strava import answers
from tests.unit.connectors.fakes import Bench, FakeAccess, answer

URL = "https://www.strava.com"


def said(response: Any) -> Any:
    """An answer of the sandbox's, as the client sees it."""
    return answer(response.status_code, bytes(response.body))


def test_everything_is_under_one_address() -> None:
    real = strava(client_id="1", client_secret=Secret("s"))
    emulated = strava(client_id="1", client_secret=Secret("s"), url="http://127.0.0.1:8001")

    assert real["base_url"] == f"{URL}/api/v3"
    assert real["auth"].authorize_url == f"{URL}/oauth/authorize"
    assert real["auth"].token_url == f"{URL}/oauth/token"
    assert emulated["base_url"] == "http://127.0.0.1:8001/api/v3"
    assert emulated["auth"].ports == {8001}
    # Strava's own: scopes are parted by commas, and a used refresh token is dead.
    assert real["auth"].scope_separator == ","
    assert real["auth"].rotation is Rotation.AT_ONCE
    assert "activity:write" in real["auth"].scopes


def test_both_families_of_limits_are_declared_and_backfill_leaves_something_of_the_reads() -> None:
    limits = {limit.name: (limit.amount, limit.reserve) for limit in BUDGET.limits}

    assert limits == {
        "read 15min": (100, 20),
        "read day": (1000, 240),
        "15min": (200, 40),
        "day": (2000, 400),
    }
    assert all(limit.scope is Scope.APP for limit in BUDGET.limits)
    # And every request has to get a slot, whichever lane or process it is of.
    assert (BUDGET.slots, BUDGET.slots_scope) == (8, Scope.APP)
    # Reads are spread over their own limit: it comes first of those that are equally long.
    assert BUDGET.limits[0].only == "read"


@pytest.mark.parametrize(
    ("headers", "counts"),
    [
        (
            {"X-RateLimit-Usage": "9,345", "X-ReadRateLimit-Usage": "7,340"},
            {"15min": 9, "day": 345, "read 15min": 7, "read day": 340},
        ),
        # Recorded from the real thing.
        ({"X-RateLimit-Usage": "9,345", "X-ReadRateLimit-Usage": ","}, {"15min": 9, "day": 345}),
        ({"X-RateLimit-Usage": "", "X-ReadRateLimit-Usage": "1"}, {}),
        ({}, {}),
    ],
)
def test_usage_is_read_as_far_as_it_can_be(headers: dict[str, str], counts: dict[str, int]) -> None:
    assert COUNTS(Headers(headers.items())) == counts


async def test_an_application_that_was_shut_off_is_no_rate_limit_and_ends_the_job() -> None:
    bench = Bench(said(answers.inactive_application()), classify=classify)

    with pytest.raises(Terminal, match="inactive") as caught:
        await bench.http.get("/athlete")

    assert not isinstance(caught.value, RateLimited)
    assert len(bench.transport.sent) == 1
    assert bench.gate.waits == []
    # Another 403 is forbidden.
    for body in (b"<html>", b'{"message":"Forbidden","errors":[]}', b"[]"):
        with pytest.raises(Forbidden):
            await Bench(answer(403, body), classify=classify).http.get("/athlete")


async def test_a_429_is_left_to_the_budget_and_a_refused_token_renewed_once() -> None:
    limited = Bench(said(answers.rate_limited()), classify=classify)
    with pytest.raises(RateLimited):
        await limited.http.get("/athlete")
    assert limited.gate.waits == [None]

    access = FakeAccess()
    bench = Bench(said(answers.unauthorized()), answer(), access=access, classify=classify)
    await bench.http.get("/athlete")
    assert access.number == 2


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (("refresh_token", "code", "code_verifier"), "invalid_grant"),
        (("client_id", "client_secret"), "invalid_client"),
        (("scope", None), None),
    ],
)
def test_the_field_that_is_wrong_says_what_is_wrong_with_the_grant(
    fields: tuple[str | None, ...], word: str | None
) -> None:
    for field in fields:
        errors = [{"resource": "x", "field": field, "code": "y"}]
        assert error_of(answer(400, {"message": "Bad Request", "errors": errors})) == word
    assert error_of(answer(200, {"access_token": "a", "errors": "none"})) is None


@pytest.mark.parametrize(
    ("body", "account"),
    [({"athlete": {"id": 7}}, 7), ({"athlete": None}, None), ({}, None), ({"athlete": {}}, None)],
)
def test_the_athlete_comes_with_the_first_tokens(body: dict[str, Any], account: object) -> None:
    assert account_of(body) == account
