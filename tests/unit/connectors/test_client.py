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
from headgate.connectors.answers import Throttled, Verdict
from headgate.connectors.api import Api, Redirects
from headgate.connectors.auth import InHeader, InQuery
from headgate.connectors.rates import read_list
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


async def test_two_bodies_are_one_too_many() -> None:
    with pytest.raises(InvalidInput, match="one body"):
        await Bench().http.post("/x", json={}, form={})


async def test_the_gate_hears_what_kind_of_request_it_is() -> None:
    bench = Bench()

    await bench.http.post("/uploads", kind="upload", essential=True)

    assert bench.gate.asked == [{"kind": "upload", "retry": False, "essential": True}]


async def test_headers_of_the_api_and_of_the_request_are_sent() -> None:
    bench = Bench(headers={"X-Api-Version": "3", "Accept": "text/plain"})

    await bench.http.get("/x", headers={"X-Extra": "yes", "accept": "image/png"})

    headers = bench.transport.requests[0].headers
    assert headers.get("x-api-version") == "3"
    assert headers.get("x-extra") == "yes"
    assert headers.all("accept") == ["image/png"]


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\x00b"])
async def test_a_header_of_two_lines_is_refused(value: str) -> None:
    bench = Bench()

    with pytest.raises(InvalidInput, match="one line"):
        await bench.http.get("/x", headers={"X-Name": value})
    assert bench.transport.requests == []


@pytest.mark.parametrize("url", ["https://evil.example/x", "http://api.example/x"])
async def test_another_origin_is_not_called(url: str) -> None:
    bench = Bench(access=FakeAccess())

    with pytest.raises(Malformed, match="not an address of this API"):
        await bench.http.get(url)
    assert bench.transport.requests == []


async def test_declared_hosts_may_be_called_by_their_address() -> None:
    bench = Bench(hosts=("*.files.example", "node.example:8443"))

    await bench.http.get("https://eu.files.example/x")
    await bench.http.get("https://node.example:8443/x")
    with pytest.raises(Malformed):
        await bench.http.get("https://node.example/x")


async def test_patience_is_handed_on() -> None:
    timeouts = Timeouts(connect_s=1.0, total_s=2.0, bytes_max=3)
    bench = Bench(timeouts=timeouts)

    await bench.http.get("/x")

    assert bench.transport.requests[0].timeouts == timeouts
    # And with the time that the permit leaves to send it.
    assert bench.transport.requests[0].send_within_s == 17.0


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


def test_an_apis_ports_are_those_it_declares() -> None:
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


async def test_after_three_tries_the_chunk_fails_as_transient() -> None:
    bench = Bench(answer(502))

    with pytest.raises(Transient, match="said 502"):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 3


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


@pytest.mark.parametrize(
    ("options", "tries"), [({}, 1), ({"repeatable": True}, 3), ({"repeatable": False}, 1)]
)
async def test_a_post_is_not_repeated_unless_it_may_be(options: Any, tries: int) -> None:
    bench = Bench(Transient("cut off"))

    with pytest.raises(Transient):
        await bench.http.post("/x", **options)
    assert len(bench.transport.requests) == tries


async def test_a_busy_provider_is_given_the_time_it_asks_for() -> None:
    bench = Bench(answer(503, headers={"Retry-After": "7"}), answer(200))

    await bench.http.get("/x")

    assert bench.clock.now() == START + timedelta(seconds=7)


async def test_a_provider_that_asks_for_long_is_left_to_the_jobs_policy() -> None:
    bench = Bench(answer(503, headers={"Retry-After": "3600"}), answer(200))

    with pytest.raises(Transient) as raised:
        await bench.http.get("/x")
    assert raised.value.retry_after_s == 3600
    assert (len(bench.transport.requests), bench.clock.now()) == (1, START)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Terminal), (403, Forbidden), (404, Terminal), (302, Malformed)]
)
async def test_what_trying_again_does_not_help_is_not_tried_again(status: int, kind: type) -> None:
    bench = Bench(answer(status))

    with pytest.raises(kind):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1


async def test_nothing_found_means_what_was_declared() -> None:
    with pytest.raises(NoData):
        await Bench(answer(404), not_found=NoData).http.get("/x")
    with pytest.raises(NoData):
        await Bench(answer(404)).http.get("/x", not_found=NoData)
    with pytest.raises(Terminal):
        await Bench(answer(404), not_found=NoData).http.get("/x", not_found=Terminal)


async def test_a_status_that_is_accepted_is_no_error() -> None:
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


async def test_a_classifier_that_says_nothing_leaves_it_to_the_status() -> None:
    good = Bench(answer(200, {"meta": {"errorType": "deprecated"}}), classify=foursquare)
    assert (await good.http.get("/x")).status == 200


async def test_a_classifier_that_chokes_on_a_gateways_page_leaves_it_to_the_status() -> None:
    with pytest.raises(Transient):
        await Bench(answer(503, b"<html>"), classify=foursquare).http.get("/x")
    with pytest.raises(Malformed):
        await Bench(answer(200, b"<html>"), classify=foursquare).http.get("/x")


async def test_a_classifier_may_know_until_when_and_which_limit_is_spent() -> None:
    until = START + timedelta(minutes=3)
    bench = Bench(answer(403), classify=lambda response: Throttled(until=until, limit="day"))

    with pytest.raises(RateLimited):
        await bench.http.get("/x")
    assert (bench.gate.waits, bench.gate.spent) == ([180.0], ["day"])


async def test_a_classifier_may_know_for_how_long() -> None:
    after = timedelta(minutes=3)
    bench = Bench(answer(403), classify=lambda response: RateLimited(after))

    with pytest.raises(RateLimited):
        await bench.http.get("/x")
    assert bench.gate.waits == [180.0]


# ---- credentials -------------------------------------------------------------------------------


async def test_a_token_goes_where_it_is_placed() -> None:
    header = Bench(access=FakeAccess())
    await header.http.get("/x")
    assert header.transport.requests[0].headers.get("authorization") == "Bearer s3cret-1"

    named = Bench(access=FakeAccess(InHeader("X-Authorization", "")))
    await named.http.get("/x")
    assert named.transport.requests[0].headers.get("x-authorization") == "s3cret-1"

    query = Bench(access=FakeAccess(InQuery("oauth_token")))
    response = await query.http.get("/x", {"v": 1})
    assert query.transport.sent == ["GET https://api.example/v1/x?v=1&oauth_token=s3cret-1"]
    assert "s3cret" not in response.url


async def test_a_refused_token_is_renewed_once_and_the_retry_is_counted() -> None:
    access = FakeAccess()
    bench = Bench(answer(401), answer(200, "ok"), access=access)

    assert (await bench.http.get("/x")).json() == "ok"
    sent = [each.headers.get("authorization") for each in bench.transport.requests]
    assert sent == ["Bearer s3cret-1", "Bearer s3cret-2"]
    assert [asked["retry"] for asked in bench.gate.asked] == [False, True]
    assert access.told == []


async def test_a_post_that_was_refused_for_its_token_took_no_effect_and_is_sent_again() -> None:
    bench = Bench(answer(401), answer(201), access=FakeAccess())

    assert (await bench.http.post("/x", json={})).status == 201


async def test_a_token_that_is_refused_again_needs_the_user() -> None:
    access = FakeAccess()
    bench = Bench(answer(401), access=access)

    with pytest.raises(AuthExpired):
        await bench.http.get("/x")
    assert (len(bench.transport.requests), len(access.told)) == (2, 1)


async def test_a_token_that_cannot_be_renewed_is_not_tried_again() -> None:
    bench = Bench(answer(401), access=FakeAccess(renewable=False))

    with pytest.raises(AuthExpired, match="nothing to renew with"):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1


async def test_without_credentials_a_401_is_final() -> None:
    bench = Bench(answer(401))

    with pytest.raises(AuthExpired):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1


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


async def test_redirects_are_off_unless_they_are_allowed() -> None:
    bench = Bench(redirect(308, "https://api.example/v2/x"), access=FakeAccess())

    with pytest.raises(Malformed, match="does not follow"):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1


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


async def test_within_its_own_origin_the_token_goes_along() -> None:
    bench = Bench(
        redirect(301, "/v1/y"), answer(), access=FakeAccess(), redirects=Redirects(hosts=())
    )

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


async def test_redirects_without_end_are_ended() -> None:
    bench = Bench(redirect(302, "/again"), redirects=Redirects(hosts=()))

    with pytest.raises(Malformed, match="more than 3 times"):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 4


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


async def test_an_address_that_must_not_be_called_is_passed_on() -> None:
    bench = Bench(AddressRefused("its address is loopback"))

    with pytest.raises(AddressRefused):
        await bench.http.get("/x")
    assert len(bench.transport.requests) == 1
