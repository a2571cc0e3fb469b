"""The HTTP client: every attempt passes the gate, every answer has its consequence."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headgate.base.errors import (
    AddressRefused,
    AuthExpired,
    Forbidden,
    InvalidInput,
    Malformed,
    NoData,
    RateLimited,
    SourceError,
    Terminal,
    Transient,
)
from headgate.connectors.auth.tokens import InHeader, InQuery
from headgate.connectors.http.answers import Throttled, Verdict
from headgate.connectors.http.api import Api, Redirects
from headgate.connectors.http.rates import read_list
from headgate.ports.transport import Response, Timeouts
from tests.unit.connectors.fakes import START, Bench, FakeAccess, answer

PEERS = Redirects(hosts=("peer-*.example:3001",), keep_auth=True)


# ---- asking ------------------------------------------------------------------------------------


async def test_a_request_goes_under_the_base_with_its_query_and_comes_back_as_json() -> None:
    bench = Bench(answer(body={"id": 7}))

    response = await bench.http.get("/athlete", {"all": True})

    assert response.json() == {"id": 7}
    assert bench.transport.sent == ["GET https://api.example/v1/athlete?all=true"]
    assert bench.gate.asked == [{"kind": "read", "retry": False, "essential": False}]
    assert bench.gate.inside == 0


@pytest.mark.parametrize(
    ("options", "kind", "body"),
    [
        ({"json": {"b": 1, "a": [None]}}, "application/json", b'{"a":[null],"b":1}'),
        ({"json": None}, "application/json", b"null"),
        ({"form": {"a": "1 2", "b": "é"}}, "application/x-www-form-urlencoded", b"a=1+2&b=%C3%A9"),
        ({"body": b"<gpx/>", "headers": {"Content-Type": "text/xml"}}, "text/xml", b"<gpx/>"),
    ],
)
async def test_a_body_goes_as_json_as_a_form_or_as_it_is(
    options: Any, kind: str, body: bytes
) -> None:
    bench = Bench()

    await bench.http.post("/things", **options)

    [request] = bench.transport.requests
    assert (request.method, request.body) == ("POST", body)
    assert request.headers.get("Content-Type") == kind


@pytest.mark.parametrize(
    ("path", "options", "error", "said"),
    [
        ("/x", {"json": {}, "form": {}}, InvalidInput, "one body"),
        ("/x", {"headers": {"X-Name": "a\r\nHost: evil"}}, InvalidInput, "one line"),
        ("/x", {"headers": {"X-Name": "a\nb"}}, InvalidInput, "one line"),
        ("/x", {"headers": {"X-Name": "a\x00b"}}, InvalidInput, "one line"),
        ("https://evil.example/x", {}, Malformed, "not an address of this API"),
        ("http://api.example/x", {}, Malformed, "not an address of this API"),
    ],
)
async def test_two_bodies_a_header_of_two_lines_and_another_origin_are_refused(
    path: str, options: Any, error: type[Exception], said: str
) -> None:
    bench = Bench(access=FakeAccess())

    with pytest.raises(error, match=said):
        await bench.http.post(path, **options)
    assert bench.transport.requests == []


async def test_headers_patience_and_what_kind_of_request_it_is_are_handed_on() -> None:
    timeouts = Timeouts(connect_s=1.0, total_s=2.0, bytes_max=3)
    bench = Bench(headers={"X-Api-Version": "3", "Accept": "text/plain"}, timeouts=timeouts)

    more = {"X-Extra": "yes", "accept": "image/png"}
    await bench.http.post("/uploads", kind="upload", essential=True, headers=more)

    [request] = bench.transport.requests
    assert request.headers.get("x-api-version") == "3"
    assert request.headers.get("x-extra") == "yes"
    assert request.headers.all("accept") == ["image/png"]
    # And the time that the permit leaves to send it.
    assert (request.timeouts, request.send_within_s) == (timeouts, 17.0)
    assert bench.gate.asked == [{"kind": "upload", "retry": False, "essential": True}]


async def test_declared_hosts_may_be_called_by_their_address() -> None:
    bench = Bench(hosts=("*.files.example", "node.example:8443"))

    await bench.http.get("https://eu.files.example/x")
    await bench.http.get("https://node.example:8443/x")
    with pytest.raises(Malformed):
        await bench.http.get("https://node.example/x")


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "https://api.example/?a=1"},
        {"tries_max": 0},
        {"timeouts": Timeouts(total_s=0)},
    ],
)
def test_an_api_that_could_never_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Api(**{"base_url": "https://api.example", **wrong})
    # Its ports are those that it declares.
    api = Api(base_url="https://a.example", redirects=PEERS, hosts=("x.example:99", "y.example"))
    assert api.ports == {443, 3001, 99}


# ---- failing and trying again ------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [answer(500), answer(503), answer(408), Transient("cut off"), Transient("late")]
)
async def test_a_transient_failure_is_tried_again_and_every_try_passes_the_gate(
    failure: Any,
) -> None:
    bench = Bench(failure, failure, answer(body=1))

    assert (await bench.http.get("/x")).json() == 1
    assert [asked["retry"] for asked in bench.gate.asked] == [False, True, True]
    # Half a second, then a whole one, each between half of it and all.
    waited_s = (bench.clock.now() - START).total_seconds()
    assert 0.75 <= waited_s <= 1.5


@pytest.mark.parametrize(
    ("said", "options", "kind", "tries"),
    [
        (answer(502), {"method": "GET"}, Transient, 3),
        (Transient("cut off"), {}, Transient, 1),
        (Transient("cut off"), {"repeatable": True}, Transient, 3),
        (Transient("cut off"), {"repeatable": False}, Transient, 1),
        (answer(400), {"method": "GET"}, Terminal, 1),
        (answer(403), {"method": "GET"}, Forbidden, 1),
        (answer(404), {"method": "GET"}, Terminal, 1),
        (answer(302), {"method": "GET"}, Malformed, 1),
        # Without credentials there is nothing to renew.
        (answer(401), {"method": "GET"}, AuthExpired, 1),
        (AddressRefused("its address is loopback"), {"method": "GET"}, AddressRefused, 1),
    ],
)
async def test_a_request_is_tried_three_times_where_that_may_help_and_it_may_be_repeated(
    said: Any, options: Any, kind: type, tries: int
) -> None:
    bench = Bench(said)

    with pytest.raises(kind):
        await bench.http.request(**{"method": "POST", "path": "/x", **options})
    assert len(bench.transport.requests) == tries


async def test_the_gate_is_left_before_a_wait() -> None:
    inside: list[int] = []
    bench = Bench(answer(500), answer(200))
    sleep = bench.clock.sleep

    async def noting(seconds: float) -> None:
        inside.append(bench.gate.inside)
        await sleep(seconds)

    bench.clock.sleep = noting  # type: ignore[method-assign]

    await bench.http.get("/x")

    assert inside == [0]


async def test_a_busy_provider_is_given_the_time_it_asks_for_unless_that_is_long() -> None:
    bench = Bench(answer(503, headers={"Retry-After": "7"}), answer(200))
    await bench.http.get("/x")
    assert bench.clock.now() == START + timedelta(seconds=7)

    # Then it is left to the job's policy.
    bench = Bench(answer(503, headers={"Retry-After": "3600"}), answer(200))
    with pytest.raises(Transient, match="said 503") as raised:
        await bench.http.get("/x")
    assert raised.value.retry_after_s == 3600
    assert (len(bench.transport.requests), bench.clock.now()) == (1, START)


async def test_nothing_found_means_what_was_declared_and_what_is_accepted_is_no_error() -> None:
    with pytest.raises(NoData):
        await Bench(answer(404), not_found=NoData).http.get("/x")
    with pytest.raises(NoData):
        await Bench(answer(404)).http.get("/x", not_found=NoData)
    with pytest.raises(Terminal):
        await Bench(answer(404), not_found=NoData).http.get("/x", not_found=Terminal)
    assert (await Bench(answer(409)).http.post("/x", accept=(409,))).status == 409


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"a":', b"\xff\xfe", b"[1", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_malformed(body: bytes) -> None:
    response = await Bench(answer(body=body)).http.get("/x")

    with pytest.raises(Malformed, match="no valid JSON"):
        response.json()


async def test_a_body_is_checked_against_a_type() -> None:
    class Thing(msgspec.Struct):
        id: int

    good = await Bench(answer(body=[{"id": 7, "more": 1}])).http.get("/x")
    assert good.json(list[Thing]) == [Thing(7)]
    bad = await Bench(answer(body=[{"id": "s3cret"}])).http.get("/x")
    with pytest.raises(Malformed) as raised:
        bad.json(list[Thing])
    assert "s3cret" not in str(raised.value)


# ---- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"Retry-After": "90"}, 90.0),
        ({"Retry-After": "-5"}, 1.0),
        ({"Retry-After": "x"}, None),
    ],
)
async def test_a_429_closes_the_budget_and_is_not_tried_again(
    headers: dict[str, str], wait_s: float | None
) -> None:
    bench = Bench(answer(429, headers=headers))

    with pytest.raises(RateLimited):
        await bench.http.get("/x")
    assert bench.gate.waits == [wait_s]
    assert len(bench.transport.requests) == 1


async def test_the_providers_counts_reach_the_gate_whatever_the_status() -> None:
    counts = read_list("X-Usage", ("15min", "day"))
    bench = Bench(
        answer(500, headers={"X-Usage": "9,345"}),
        answer(200, headers={"X-Usage": ","}),
        counts=counts,
    )

    await bench.http.get("/x")

    assert bench.gate.seen == [{"15min": 9, "day": 345}]


# ---- a connector's own words -------------------------------------------------------------------


def foursquare(response: Response) -> Verdict:
    """Errors hide in the body: the same 403 may be a limit or a denial."""
    match response.json().get("meta", {}).get("errorType"):
        case "rate_limit_exceeded":
            return Throttled()
        case "quota_exceeded":
            return Throttled(retry_after_s=3600)
        case "invalid_auth":
            return AuthExpired("invalid_auth")
        case "server_error":
            return Transient("server_error")
        case _:
            return None


@pytest.mark.parametrize(
    ("status", "word", "kind", "waits"),
    [
        (403, "rate_limit_exceeded", RateLimited, [None]),
        (429, "quota_exceeded", RateLimited, [3600]),
        (403, "not_authorized", Forbidden, []),
        (200, "invalid_auth", AuthExpired, []),
        (200, "server_error", Transient, []),
    ],
)
async def test_a_classifier_finds_what_the_status_hides(
    status: int, word: str, kind: type[SourceError], waits: list[float | None]
) -> None:
    bench = Bench(answer(status, {"meta": {"errorType": word}}), classify=foursquare)

    with pytest.raises(kind):
        await bench.http.get("/x")
    assert bench.gate.waits == waits


async def test_a_classifier_that_says_nothing_or_chokes_leaves_it_to_the_status() -> None:
    good = Bench(answer(200, {"meta": {"errorType": "deprecated"}}), classify=foursquare)
    assert (await good.http.get("/x")).status == 200
    for status, error in ((503, Transient), (200, Malformed)):
        with pytest.raises(error):
            await Bench(answer(status, b"<html>"), classify=foursquare).http.get("/x")


@pytest.mark.parametrize(
    ("verdict", "spent"),
    [
        (Throttled(until=START + timedelta(minutes=3), limit="day"), "day"),
        (RateLimited(timedelta(minutes=3)), None),
    ],
)
async def test_a_classifier_may_know_how_long_and_which_limit_is_spent(
    verdict: Verdict, spent: str | None
) -> None:
    bench = Bench(answer(403), classify=lambda response: verdict)

    with pytest.raises(RateLimited):
        await bench.http.get("/x")
    assert (bench.gate.waits, bench.gate.spent) == ([180.0], [spent])


# ---- credentials -------------------------------------------------------------------------------


async def test_a_token_goes_where_it_is_placed() -> None:
    header = Bench(access=FakeAccess(external_id="my-graph"))
    await header.http.get("/x")
    assert header.transport.requests[0].headers.get("authorization") == "Bearer s3cret-1"

    named = Bench(access=FakeAccess(InHeader("X-Authorization", "")))
    await named.http.get("/x")
    assert named.transport.requests[0].headers.get("x-authorization") == "s3cret-1"

    query = Bench(access=FakeAccess(InQuery("oauth_token")))
    response = await query.http.get("/x", {"v": 1})
    assert query.transport.sent == ["GET https://api.example/v1/x?v=1&oauth_token=s3cret-1"]
    assert "s3cret" not in response.url
    # And the client knows whose account it is.
    assert (header.http.external_id, Bench().http.external_id) == ("my-graph", None)


async def test_a_refused_token_is_renewed_once_and_the_retry_is_counted() -> None:
    access = FakeAccess()
    bench = Bench(answer(401), answer(200, "ok"), access=access)

    assert (await bench.http.get("/x")).json() == "ok"
    sent = [each.headers.get("authorization") for each in bench.transport.requests]
    assert sent == ["Bearer s3cret-1", "Bearer s3cret-2"]
    assert [asked["retry"] for asked in bench.gate.asked] == [False, True]
    assert access.told == []
    # A request that was refused for its token took no effect: a POST is sent again too.
    bench = Bench(answer(401), answer(201), access=FakeAccess())
    assert (await bench.http.post("/x", json={})).status == 201


@pytest.mark.parametrize(
    ("renewable", "tries", "told", "said"),
    [(True, 2, 1, "credentials"), (False, 1, 0, "nothing to renew with")],
)
async def test_a_token_that_is_refused_again_or_cannot_be_renewed_needs_the_user(
    renewable: bool, tries: int, told: int, said: str
) -> None:
    access = FakeAccess(renewable=renewable)
    bench = Bench(answer(401), access=access)

    with pytest.raises(AuthExpired, match=said):
        await bench.http.get("/x")
    assert (len(bench.transport.requests), len(access.told)) == (tries, told)


async def test_a_token_of_two_lines_is_not_sent() -> None:
    for placement in (InHeader(), InQuery()):
        access = FakeAccess(placement)
        access.number = "1\r\nHost: evil"  # type: ignore[assignment]
        bench = Bench(access=access)
        with pytest.raises(InvalidInput) as raised:
            await bench.http.get("/x")
        assert "evil" not in str(raised.value)
        assert bench.transport.requests == []


# ---- redirects ---------------------------------------------------------------------------------


def redirect(status: int, location: str) -> Response:
    return answer(status, headers={"Location": location})


@pytest.mark.parametrize(
    ("redirects", "said", "requests"),
    [(None, "does not follow", 1), (Redirects(hosts=()), "more than 3 times", 4)],
)
async def test_redirects_are_off_unless_they_are_allowed_and_have_an_end(
    redirects: Redirects | None, said: str, requests: int
) -> None:
    bench = Bench(redirect(308, "/again"), access=FakeAccess(), redirects=redirects)

    with pytest.raises(Malformed, match=said):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == requests


async def test_a_308_to_a_peer_keeps_the_method_the_body_and_where_allowed_the_token() -> None:
    bench = Bench(
        redirect(308, "https://peer-7.example:3001/q"), answer(body=1),
        access=FakeAccess(InHeader("X-Authorization")), redirects=PEERS,
    )  # fmt: skip

    assert (await bench.http.post("/q", json={"query": 1}, repeatable=True)).json() == 1
    assert bench.transport.sent == [
        "POST https://api.example/v1/q",
        "POST https://peer-7.example:3001/q",
    ]
    first, second = bench.transport.requests
    assert first.body == second.body == b'{"query":1}'
    assert second.headers.get("x-authorization") == "Bearer s3cret-1"
    # Each hop is a request of its own, and none of them is a retry.
    assert [asked["retry"] for asked in bench.gate.asked] == [False, False]


async def test_the_token_stays_at_home_unless_it_may_go() -> None:
    there = Redirects(hosts=("cdn.example",))
    for placement in (InHeader(), InQuery()):
        bench = Bench(
            redirect(302, "https://cdn.example/file"), answer(), access=FakeAccess(placement),
            redirects=there,
        )  # fmt: skip
        await bench.http.get("/x")
        second = bench.transport.requests[1]
        assert second.headers.get("authorization") is None
        assert second.url == "https://cdn.example/file"
    # Within its own origin it goes along.
    bench = Bench(redirect(301, "/v1/y"), answer(), access=FakeAccess(), redirects=there)
    await bench.http.get("/x")
    assert bench.transport.requests[1].headers.get("authorization") == "Bearer s3cret-1"


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/",
        "https://peer-7.example/",
        "https://peer-7.example:3002/",
        "https://peer-7.example.evil.example:3001/",
        "https://peer-7.evil.example:3001/",
        "http://peer-7.example:3001/",
        "http://peer-7.example:3001.evil.example/",
        "https://peer-7.example:3001@evil.example/",
        "//evil.example/",
        "javascript:alert(1)",
        "http://169.254.169.254/latest",
        "http://0x7f000001/",
        "",
    ],
)
@pytest.mark.security(8)
async def test_a_redirect_elsewhere_is_refused(location: str) -> None:
    bench = Bench(redirect(308, location), access=FakeAccess(), redirects=PEERS)

    with pytest.raises(Malformed):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1


@pytest.mark.parametrize(("status", "follows"), [(301, False), (302, False), (303, True)])
async def test_what_becomes_of_a_redirected_post(status: int, follows: bool) -> None:
    bench = Bench(redirect(status, "/done"), answer(), redirects=Redirects(hosts=()))

    if not follows:
        with pytest.raises(Malformed, match="does not say how"):
            await bench.http.post("/x", json={})
        return
    await bench.http.post("/x", json={})
    second = bench.transport.requests[1]
    assert (second.method, second.body) == ("GET", b"")
    assert second.headers.get("content-type") is None


# ---- nothing secret is told --------------------------------------------------------------------


async def test_what_is_shown_of_requests_and_answers_holds_no_secret() -> None:
    bench = Bench(
        answer(200, {"access_token": "s3cret"}, {"Set-Cookie": "s3cret"}),
        access=FakeAccess(InQuery()),
    )

    response = await bench.http.get("/x", {"q": "s3cret"}, headers={"X-Key": "s3cret"})
    [request] = bench.transport.requests

    for shown in (repr(request), repr(response), repr(request.headers), repr(response.headers)):
        assert "s3cret" not in shown
    assert repr(response) == "Response(200 from https://api.example/v1/x, 25 bytes)"


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 500])
async def test_no_error_tells_a_secret(status: int) -> None:
    headers = {"Location": "https://evil.example/?t=s3cret", "X": "s3cret"}
    access = FakeAccess(InQuery())
    for redirects in (None, PEERS):
        bench = Bench(answer(status, "s3cret", headers), access=access, redirects=redirects)
        with pytest.raises(SourceError) as raised:
            await bench.http.get("/x?key=s3cret", {"q": "s3cret"})
        assert "s3cret" not in repr(raised.value)
