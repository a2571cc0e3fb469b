"""A scripted provider, a gate that notes who passed, and credentials without a store."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from headgate.base.clock import ManualClock
from headgate.base.errors import AuthExpired, RateLimited
from headgate.base.secret import Secret
from headgate.connectors.auth.tokens import InHeader, Placement
from headgate.connectors.http.api import Api
from headgate.connectors.http.client import HttpClient
from headgate.ports.connections.auth import TokenPlacement
from headgate.ports.http import ClientOptions
from headgate.ports.transport import Headers, Request, Response

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
BASE = "https://api.example/v1"

Answer = Response | Exception | Callable[[Request], Response]


def answer(
    status: int = 200, body: Any = None, headers: Mapping[str, str] | None = None
) -> Response:
    """What the provider says; a body that is not bytes is JSON."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Response(
        status=status, headers=Headers((headers or {}).items()), body=raw, url="https://unset"
    )


class ScriptedTransport:
    """Gives one answer after another; the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers) or [answer()]
        self.requests: list[Request] = []
        self.closed = False

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        message = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(message, Exception):
            raise message
        response = message(request) if callable(message) else message
        return msgspec.structs.replace(response, url=request.url)

    async def close(self) -> None:
        self.closed = True

    @property
    def sent(self) -> list[str]:
        """Method and address of every request."""
        return [f"{each.method} {each.url}" for each in self.requests]


class NotingGate:
    """Lets everything pass, and writes it down."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.seen: list[Mapping[str, int]] = []
        self.waits: list[float | None] = []
        #: The limits that the provider called spent.
        self.spent: list[str | None] = []
        #: Requests on their way at this moment.
        self.inside = 0

    @asynccontextmanager
    async def request(
        self, *, kind: str = "read", retry: bool = False, essential: bool = False
    ) -> AsyncIterator["NotingGate"]:
        self.asked.append({"kind": kind, "retry": retry, "essential": essential})
        self.inside += 1
        try:
            yield self
        finally:
            self.inside -= 1

    remaining: int | None = None
    send_within_s = 17.0

    async def observe_counts(self, counts: Mapping[str, int]) -> None:
        self.seen.append(counts)

    async def close_budget(
        self, retry_after_s: float | None = None, limit: str | None = None
    ) -> RateLimited:
        self.waits.append(retry_after_s)
        self.spent.append(limit)
        return RateLimited(timedelta(seconds=retry_after_s or 900))


class FakeAccess:
    """Tokens that are numbered."""

    def __init__(
        self,
        placement: Placement | None = None,
        *,
        renewable: bool = True,
        external_id: str | None = None,
    ) -> None:
        self.number = 1
        self.external_id = external_id
        self.told: list[str] = []
        self._placement = placement or InHeader()
        self._renewable = renewable

    async def place_token(self) -> TokenPlacement:
        return self._placement.place(Secret(f"s3cret-{self.number}"))

    async def renew(self) -> None:
        if not self._renewable:
            raise AuthExpired("nothing to renew with")
        self.number += 1

    async def reject(self, message: str) -> None:
        self.told.append(message)


class Bench:
    """A client with all its surroundings at hand."""

    def __init__(
        self, *answers: Answer, access: FakeAccess | None = None, base_url: str = BASE, **api: Any
    ) -> None:
        self.clock = ManualClock(START)
        self.transport = ScriptedTransport(*answers)
        self.gate = NotingGate()
        self.access = access
        options = ClientOptions(
            gate=self.gate,
            transport=self.transport,
            access=access,
            clock=self.clock,
            rng=Random(1),
        )
        self.http = HttpClient(Api(base_url=base_url, **api), options)
