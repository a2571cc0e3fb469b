"""What a caller may use of us: requests a minute, and bytes in a body."""

from datetime import UTC, datetime

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from headgate.base.clock import ManualClock
from headgate.toolkit.api import limits
from headgate.toolkit.api.limits import BodyLimit, Limits, large_body
from headgate.toolkit.api.problems import ProblemError


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def spent(limits: Limits, key_id: str = "key_1", most: int = 10_000) -> int:
    """How many requests get through before one is refused."""
    for number in range(most):
        try:
            limits.spend(key_id)
        except ProblemError:
            return number
    return most


def test_a_key_has_a_minutes_worth_and_then_the_rate(clock: ManualClock) -> None:
    bucket = Limits(clock, per_min=60)

    assert spent(bucket) == 60
    clock.advance(5)
    assert spent(bucket) == 5
    clock.advance(3600)
    assert spent(bucket) == 60


def test_one_key_does_not_spend_anothers(clock: ManualClock) -> None:
    bucket = Limits(clock, per_min=3)
    spent(bucket)

    assert spent(bucket, "key_2") == 3


def test_the_refusal_says_when_to_come_again_and_keeps_its_word(clock: ManualClock) -> None:
    bucket = Limits(clock, per_min=20)
    spent(bucket)

    with pytest.raises(ProblemError) as refused:
        bucket.spend("key_1")

    assert refused.value.kind.code == "too_many_requests"
    assert refused.value.headers is not None
    wait_s = int(refused.value.headers["Retry-After"])
    assert 1 <= wait_s <= 4
    clock.advance(wait_s)
    bucket.spend("key_1")


def test_memory_is_bounded(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUCKETS_MAX", 10)
    bucket = Limits(clock, per_min=1)

    for number in range(50):
        bucket.spend(f"key_{number}")
        # In use all the while: not the one to be forgotten.
        if number:
            with pytest.raises(ProblemError):
                bucket.spend("key_0")

    assert len(bucket._buckets) == 10


# ---- bodies ------------------------------------------------------------------------------------


async def sent(parts: list[bytes], headers: list[tuple[bytes, bytes]]) -> int:
    """How many bytes of the body the application gets to see."""
    seen = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal seen
        while True:
            message = await receive()
            seen += len(message["body"])
            if not message["more_body"]:
                return

    left = list(parts)

    async def receive() -> Message:
        part = left.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent here")

    await BodyLimit(app, bytes_max=10)({"type": "http", "headers": headers}, receive, send)
    return seen


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"10")], [(b"content-length", b"")]])
async def test_a_body_that_fits_comes_through(headers: list[tuple[bytes, bytes]]) -> None:
    assert await sent([b"12345", b"67890"], headers) == 10


@pytest.mark.parametrize(
    ("parts", "headers"),
    [
        ([b"x" * 11], []),
        ([b"x" * 6, b"x" * 5], []),
        # What it says of itself is enough, and is not believed where it is too little.
        ([b""], [(b"content-length", b"11")]),
        ([b""], [(b"content-length", b"9" * 5000)]),
        ([b"x" * 11], [(b"content-length", b"2")]),
    ],
)
async def test_a_body_that_is_too_large_is_refused(
    parts: list[bytes], headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(ProblemError) as refused:
        await sent(parts, headers)
    assert refused.value.kind.code == "payload_too_large"


@pytest.mark.parametrize(
    ("method", "path", "bytes_max"),
    [
        ("POST", "/batches", 100),
        ("POST", "/users/ada/batches", 200),
        # Another method, another path, or more of it: the default.
        ("PUT", "/batches", 10),
        ("POST", "/batches/", 10),
        ("POST", "/batches/1", 10),
        ("POST", "/users/batches", 10),
        ("POST", "/plain", 10),
    ],
)
async def test_a_route_may_take_larger_bodies_and_no_other_does(
    method: str, path: str, bytes_max: int
) -> None:
    @large_body(100)
    async def take(request: Request) -> Response:
        return Response()

    @large_body(200)
    async def take_for(request: Request) -> Response:
        return Response()

    async def plain(request: Request) -> Response:
        return Response()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async def sent(size: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"x" * size, "more_body": False}

        async def send(message: Message) -> None:
            raise AssertionError("nothing is sent here")

        await limited({**scope, "headers": []}, receive, send)

    routes = [
        Route("/batches", take, methods=["POST"]),
        Route("/users/{user}/batches", take_for, methods=["POST"]),
        Route("/plain", plain, methods=["POST"]),
    ]
    limited = BodyLimit(app, bytes_max=10, routes=routes)
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}

    await sent(bytes_max)
    with pytest.raises(ProblemError, match=f"at most {bytes_max} bytes"):
        await sent(bytes_max + 1)
