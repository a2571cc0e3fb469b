"""What is known of Foursquare: the way in, the limits, and what its answers mean."""

from typing import Any

import pytest

from headgate import AuthExpired, Malformed, RateLimited, Scope, Secret, Terminal, Transient
from headgate.connectors import Headers
from headgate.connectors.foursquare.api import HOURLY, account_of, classify, foursquare
from headgate.connectors.foursquare.settings import FoursquareSettings
from headgate.errors import Forbidden, SourceError
from headgate_sandbox.foursquare.envelope import Envelope
from tests.unit.connectors.fakes import START, Bench, FakeAccess, answer

API = foursquare(client_id="1", client_secret=Secret("s"))
SAID = Envelope(1)


def said(response: Any, **headers: str) -> Any:
    """An answer of the sandbox's, as the client sees it."""
    return answer(response.status_code, bytes(response.body), headers)


def error(status: int, kind: str) -> Any:
    meta = {"code": status, "errorType": kind, "errorDetail": "Why", "requestId": "r"}
    return answer(status, {"meta": meta, "response": {}})


def test_the_api_and_the_sign_in_page_are_two_hosts_or_one_sandbox() -> None:
    emulated = foursquare(client_id="1", client_secret=Secret("s"), url="http://127.0.0.1:8003")

    assert API["base_url"] == "https://api.foursquare.com/v2"
    assert API["auth"].authorize_url == "https://foursquare.com/oauth2/authenticate"
    assert API["auth"].token_url == "https://foursquare.com/oauth2/access_token"
    assert API["auth"].account_url == "https://api.foursquare.com/v2/users/self?v=20260101"
    assert emulated["base_url"] == "http://127.0.0.1:8003/v2"
    assert emulated["auth"].ports == {8003}
    # A token goes into the query, and cannot be renewed.
    assert API["auth"].place_token(Secret("t")).params == {"oauth_token": "t"}
    assert not API["auth"].refreshes


def test_each_user_has_an_hour_and_the_application_a_day_and_what_is_left_is_read() -> None:
    limits = {limit.name: (limit.amount, limit.scope) for limit in API["budget"].limits}
    refused = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767600000"}

    assert limits == {"hour per connection": (500, Scope.CONNECTION), "day": (99_500, Scope.APP)}
    assert HOURLY.rolling
    assert API["counts"](Headers({"X-RateLimit-Remaining": "498"}.items())) == {HOURLY.name: 2}
    for said in ({"X-RateLimit-Remaining": "soon"}, refused, {}):
        assert API["counts"](Headers(said.items())) == {}


@pytest.mark.parametrize(
    ("status", "type_", "kind"),
    [
        (403, "not_authorized", Forbidden),
        (400, "param_error", Terminal),
        (410, "param_error", Terminal),
        (404, "endpoint_error", Terminal),
        (500, "server_error", Transient),
        # The type says it, whatever the status.
        (200, "server_error", Transient),
        (200, "not_authorized", Forbidden),
        (400, "invalid_auth", AuthExpired),
        # Where the type says nothing, the status does.
        (405, "other", Terminal),
        (409, "other", Terminal),
        (503, "other", Transient),
        # But for a 403, which may mean two things.
        (403, "other", Malformed),
    ],
)
async def test_an_error_is_known_by_its_type(
    status: int, type_: str, kind: type[SourceError]
) -> None:
    bench = Bench(error(status, type_), classify=classify, tries_max=1)

    with pytest.raises(SourceError) as caught:
        await bench.http.get("/users/self/checkins")

    assert type(caught.value) is kind
    assert bench.gate.waits == []


@pytest.mark.parametrize(
    ("response", "wait", "spent"),
    [
        *(
            (said(SAID.hourly_limit(), **{"X-RateLimit-Reset": reset}), wait, "hour per connection")
            for reset, wait in (
                *((str(int(START.timestamp()) + 1200), 1200.0), ("9" * 12, 86_400.0)),
                *((str(int(START.timestamp()) - 5), 1.0), ("9" * 13, None), ("soon", None)),
            )
        ),
        (said(SAID.daily_quota()), None, "day"),
    ],
)
async def test_a_spent_hour_closes_the_users_budget_and_a_spent_day_the_applications(
    response: Any, wait: float | None, spent: str
) -> None:
    bench = Bench(response, classify=classify)

    with pytest.raises(RateLimited):
        await bench.http.get("/users/self/checkins")

    assert (bench.gate.waits, bench.gate.spent) == ([wait], [spent])


@pytest.mark.parametrize("response", [error(401, "invalid_auth"), answer(401, b"")])
async def test_a_refused_token_is_not_tried_again(response: Any) -> None:
    bench = Bench(response, access=FakeAccess(renewable=False), classify=classify)

    with pytest.raises(AuthExpired):
        await bench.http.get("/users/self/checkins")
    assert len(bench.transport.sent) == 1


async def test_a_403_that_does_not_say_why_may_pass_and_a_warning_is_no_error() -> None:
    for body in (b"<html>", b"", b"[]", b'{"meta":{"code":403}}'):
        with pytest.raises(Malformed):
            await Bench(answer(403, body), classify=classify).http.get("/users/self/checkins")
    bench = Bench(said(SAID.ok({"x": 1}, deprecated=True)), classify=classify)
    assert (await bench.http.get("/users/self/checkins")).status == 200


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"<html>", Malformed),
        (200, {"meta": {"code": 500}}, Malformed),
        (502, b"<html>", Transient),
        (429, b"<html>", RateLimited),
    ],
)
async def test_what_is_no_answer_of_theirs_is_judged_by_its_status(
    status: int, body: object, kind: type[SourceError]
) -> None:
    with pytest.raises(kind):
        await Bench(answer(status, body), classify=classify, tries_max=1).http.get("/x")


@pytest.mark.parametrize(
    ("body", "account"),
    [
        ({"response": {"user": {"id": "2000001"}}}, "2000001"),
        ({"response": {"user": {}}}, None),
        ({"response": {}}, None),
        ({}, None),
    ],
)
def test_the_account_is_the_users_id(body: dict[str, Any], account: str | None) -> None:
    assert account_of(body) == account


def test_the_settings_are_those_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_SECRET", "cl1ent")
    monkeypatch.setenv("HEADGATE_FOURSQUARE_URL", "http://127.0.0.1:8003/")
    monkeypatch.setenv("HEADGATE_FOURSQUARE_REQUESTS_PER_DAY", "950")

    api = FoursquareSettings().foursquare("https://app.example")  # type: ignore[call-arg]

    assert api["auth"].redirect_uris == ("https://app.example/connected/foursquare",)
    assert api["base_url"] == "http://127.0.0.1:8003/v2"
    assert [limit.amount for limit in api["budget"].limits] == [500, 950]
