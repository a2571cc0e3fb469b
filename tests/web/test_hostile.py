"""Requests that mean no good, or no anything: refused with a reason, and never a 500."""

import base64
import io
import json
from typing import Any

import pytest

from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.log_events import LogEvent
from headgate.errors import StoreUnavailable
from headgate.secrets.keys import KeyRing
from headgate.store.sql.people.api_keys import SqlApiKeys
from headgate.toolkit.api.limits import FAILURES_PER_MIN
from headgate.web.server import build
from tests.web.callers import (
    DAYS,
    Client,
    Served,
    history,
    on_every_system,
    problem,
    start,
    with_every_system,
    with_server,
)
from tests.worlds import as_test

JSON = {"Content-Type": "application/json"}
BODY = {"source": "fitbit", **DAYS}


@pytest.mark.security(27)
@with_every_system
async def test_json_that_can_be_read_in_two_ways_is_refused(served: Served) -> None:
    client = await served.client()
    for body in (
        b"{",
        b"\xff\xfe",
        b"NaN",
        b'{"source": Infinity}',
        b'{"source": 1e999}',
        b'{"source": ' + b"9" * 5000 + b"}",
        b'{"source": 99999999999999999999}',
        b'{"source": "fitbit", "source": "strava"}',
        b'{"source": "fit\\u0000bit"}',
        b'{"source": "\\ud800"}',
        b'{"sou\\u0000rce": 1}',
        b"[" * 30_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 25 + b"]" * 25,
    ):
        for path in ("/v1/jobs", "/jobs", "/v1/connections/tokens", "/v1/jobs/x/pause"):
            problem(await client.post(path, content=body, headers=JSON), 400, "malformed_json")
    for body in (b"null", b"[]", b'"text"', b"7", b"", b"{}"):
        problem(await client.post("/v1/jobs", content=body, headers=JSON), 422, "invalid_input")
    assert await served.app.jobs.list() == []


@with_every_system
async def test_only_json_is_taken(served: Served) -> None:
    client = await served.client()
    body = json.dumps(BODY).encode()
    # What a form on another site can send.
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "", "a/b; json"):
        headers = {"Content-Type": media_type, "Origin": "https://evil.example"}
        answer = await client.post("/v1/jobs", content=body, headers=headers)
        problem(answer, 415, "unsupported_media_type")
    assert await served.app.jobs.list() == []
    fine = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await client.post("/v1/jobs", content=body, headers=fine)).status_code == 202


@pytest.mark.security(27)
@with_every_system
async def test_a_large_body_is_refused_before_it_is_read(served: Served) -> None:
    client = await served.client()
    large = json.dumps({**BODY, "source": "x" * 70_000}).encode()

    async def parts() -> Any:
        for begin in range(0, len(large), 1000):
            yield large[begin : begin + 1000]

    for content in (large, parts()):
        answer = await client.post("/v1/jobs", content=content, headers=JSON)
        problem(answer, 413, "payload_too_large")


def _nothing(answer: Any) -> None:
    """Nothing has this id; or, where a slash or a line is in it, it is not even a path of ours."""
    code = "unknown_path" if answer.json()["code"] == "unknown_path" else "not_found"
    problem(answer, 404, code)


@pytest.mark.security(25)
@with_every_system
async def test_ids_that_cannot_be_are_not_found(served: Served) -> None:
    client, admin = await served.client(), await served.admin()
    for bad in ("%00", "a%0d%0ab", "..%2f..", "%f0%28%8c%28", "x" * 300, "a'--"):
        await not_found(client, admin, bad)


async def not_found(client: Client, admin: Client, bad: str) -> None:
    """Nothing has this id, whatever is asked of it."""
    for path in (f"/v1/jobs/{bad}", f"/v1/jobs/{bad}/events", f"/jobs/{bad}/status"):
        _nothing(await client.get(path))
    for verb in ("pause", "retry"):
        _nothing(await client.post(f"/v1/jobs/{bad}/{verb}"))
    _nothing(await client.post(f"/v1/connections/{bad}/pause"))
    _nothing(await client.delete(f"/v1/connections/{bad}"))
    _nothing(await client.get(f"/v1/connections/{bad}"))
    _nothing(await client.get(f"/v1/items/{bad}"))
    _nothing(await client.get(f"/v1/syncs/{bad}/records"))
    _nothing(await client.get(f"/v1/syncs/fitbit-days/records/{bad}"))
    _nothing(await admin.post(f"/v1/items/{bad}/reset"))
    for params in ("user_id", "sync", "after"):
        assert (await admin.get(f"/v1/jobs?{params}={bad}")).status_code in (200, 422)
    for verb in ("pause", "resume"):
        _nothing(await admin.post(f"/v1/users/{bad}/{verb}"))
    _nothing(await admin.get(f"/v1/users/{bad}"))


@pytest.mark.security(22)
@with_server
async def test_what_people_call_things_comes_back_inert(served: Served) -> None:
    name = "<img src=x onerror=alert(1)>"
    client = await served.client(user_id=name)

    job_id = (await start(client))["id"]
    answer = await client.get(f"/v1/jobs/{job_id}")

    assert answer.json()["user_id"] == name
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.security(21)
@with_every_system
async def test_every_answer_has_its_security_headers(served: Served) -> None:
    client = await served.client()
    job_id = (await start(client))["id"]
    answers = [
        await client.get(f"/v1/jobs/{job_id}", headers={"Origin": "https://evil.example"}),
        await client.get("/v1/jobs"),
        await client.get("/nowhere"),
        await client.post("/healthz"),
        await client.get("/healthz"),
        await client.post("/v1/jobs", content=b"x" * 100_000),
        await client.options("/v1/jobs", headers={"Origin": "https://evil.example"}),
        await served.with_headers().get("/v1/jobs"),
    ]

    for answer in answers:
        headers = answer.headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] in ("no-store", "private, no-cache")
        assert not [name for name in headers if name.startswith("access-control")]
    assert problem(answers[3], 405, "method_not_allowed")
    assert answers[3].headers["allow"] == "GET"


@pytest.mark.parametrize("public_url", ["https://sync.example", "http://127.0.0.1:8080"])
@pytest.mark.security(21)
@with_server
async def test_browsers_are_told_to_come_by_https_where_the_site_is_there(
    served: Served, public_url: str
) -> None:
    site = Served(served.app, build(served.app, keys=KeyRing.for_demo(), public_url=public_url))
    client = site.with_headers()
    for path in ("/healthz", "/v1/jobs", "/nowhere", "/p/none"):
        told = (await client.get(path)).headers.get("strict-transport-security")
        # A year; and never over plain http, where browsers have to ignore it.
        assert told == ("max-age=31536000" if public_url.startswith("https") else None)


@with_every_system
async def test_a_failure_of_ours_is_a_problem_without_details(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await served.client()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("postgres://user:hunter2@db")

    with monkeypatch.context() as patched:
        patched.setattr(type(served.app), "jobs", broken)
        answer = await client.get("/v1/jobs")
        assert problem(answer, 500, "internal_error")
        assert "hunter2" not in answer.text and "RuntimeError" not in answer.text

    async def down(*_: Any) -> None:
        raise StoreUnavailable("the database did not answer: hunter2")

    # Even while it is being found out who calls.
    with monkeypatch.context() as patched:
        patched.setattr(SqlApiKeys, "find", down)
        patched.setattr(type(served.app._database), "ping", down)
        answer = await client.get("/v1/jobs")
        told = problem(answer, 503, "store_unavailable")
        assert told["retryable"] and "hunter2" not in answer.text
        assert int(answer.headers["retry-after"]) > 0
        health = await served.with_headers().get("/healthz")
        assert (health.status_code, health.text) == (503, "unavailable")


@pytest.mark.security(28)
@with_server
async def test_too_many_requests_of_one_key(served: Served) -> None:
    client = await served.client()
    [key] = await served.keys.list()
    other = await served.client()
    for _ in range(598):
        served.web.state.api.limits.spend(key.id)
    for _ in range(2):
        assert (await client.get("/v1/connections")).status_code == 200

    refused = await client.get("/v1/connections")

    assert problem(refused, 429, "too_many_requests")["retryable"]
    assert (await other.get("/v1/connections")).status_code == 200
    await served.clock.sleep(int(refused.headers["retry-after"]))
    assert (await client.get("/v1/connections")).status_code == 200


@pytest.mark.security(9)
@as_test(on_every_system, history("späh & söhne"))
async def test_sources_say_nothing_that_is_not_theirs(served: Served) -> None:
    """A source whose name is odd is still found, and told as it is."""
    client = await served.client()
    answer = await client.post("/v1/jobs", json={**BODY, "source": "späh & söhne"})
    assert answer.json()["source"] == "späh & söhne"


@pytest.mark.security(28)
@with_server
async def test_whoever_keeps_guessing_keys_is_told_to_wait_and_shuts_nobody_out(
    served: Served,
) -> None:
    told = io.StringIO()
    log.configure(SystemClock(), json=True, level="info", stream=told)
    stranger = served.with_headers({"Authorization": "Bearer guess"})
    for _ in range(FAILURES_PER_MIN):
        problem(await stranger.get("/v1/jobs"), 401, "unauthorized")

    refused = await stranger.get("/v1/jobs")
    assert problem(refused, 429, "too_many_requests")["retryable"]
    assert int(refused.headers["retry-after"]) >= 1
    # Nor is the log filled.
    assert told.getvalue().count(LogEvent.AUTHENTICATION_FAILED) == FAILURES_PER_MIN

    # A valid key from the same address is served all the while.
    assert (await (await served.client()).get("/v1/jobs")).status_code == 200

    # It passes.
    await served.clock.sleep(60)
    problem(await stranger.get("/v1/jobs"), 401, "unauthorized")


@with_server
async def test_a_token_that_goes_too_deep_opens_nothing(served: Served) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 3000).decode().rstrip("=")
    for path in ("/p/", "/connect/", "/a/"):
        assert (await served.with_headers().get(f"{path}{deep}.x")).status_code == 404
