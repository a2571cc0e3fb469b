"""Limits on callers: requests per minute, and the size of a request body."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.base.clock import Clock
from headgate.toolkit.api.problems import ProblemError

#: A usual body has a few hundred bytes.
BODY_BYTES_MAX = 64 * 1024
REQUESTS_PER_MIN = 600
#: Requests without a valid API key, from one address.
FAILURES_PER_MIN = 300
#: Buckets in memory at once; the least recently used one is dropped first.
BUCKETS_MAX = 10_000
_LARGE_BODY = "large_body_bytes_max"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class _Bucket(msgspec.Struct):
    """The requests left, and the time of that count."""

    left: float
    at: float


class Limits:
    """A token bucket for each API key, in this process: a burst of one minute, then the rate."""

    def __init__(self, clock: Clock, *, per_min: int = REQUESTS_PER_MIN) -> None:
        """Allow each key `per_min` requests a minute."""
        self._clock = clock
        self._per_min = per_min
        self._rate = per_min / 60
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def spend(self, key_id: str) -> None:
        """Count a request, or refuse it and say when to retry."""
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault(key_id, _Bucket(left=self._per_min, at=now))
        self._buckets.move_to_end(key_id)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        bucket.left = min(self._per_min, bucket.left + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.left < 1:
            wait_s = max(1, round((1 - bucket.left) / self._rate + 0.5))
            raise ProblemError(
                "too_many_requests",
                f"at most {self._per_min} requests a minute are allowed",
                headers={"Retry-After": str(wait_s)},
            )
        bucket.left -= 1


def large_body(bytes_max: int) -> Callable[[Endpoint], Endpoint]:
    """Decorate an endpoint: its bodies may have `bytes_max` bytes, and not only the default."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _LARGE_BODY, bytes_max)
        return endpoint

    return mark


class BodyLimit:
    """Refuses a body that is too large: by its declared length, or while it is read."""

    def __init__(
        self, app: ASGIApp, *, bytes_max: int = BODY_BYTES_MAX, routes: Sequence[Route] = ()
    ) -> None:
        """Wrap `app`; those of its `routes` that are marked with `large_body` may read more."""
        self._app = app
        self._bytes_max = bytes_max
        self._larger = [
            (route, int(larger))
            for route in routes
            if (larger := getattr(route.endpoint, _LARGE_BODY, None)) is not None
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count the bytes of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bytes_max, bytes_read = self._limit_of(scope), 0

        async def receive_counted() -> Message:
            nonlocal bytes_read
            message = await receive()
            bytes_read += len(message.get("body", b""))
            if bytes_read > bytes_max:
                raise _too_large(bytes_max)
            return message

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > bytes_max:
            raise _too_large(bytes_max)
        await self._app(scope, receive_counted, send)

    def _limit_of(self, scope: Scope) -> int:
        for route, bytes_max in self._larger:
            if route.matches(scope)[0] is Match.FULL:
                return bytes_max
        return self._bytes_max


def _too_large(bytes_max: int) -> ProblemError:
    return ProblemError("payload_too_large", f"the body may have at most {bytes_max:,} bytes")
