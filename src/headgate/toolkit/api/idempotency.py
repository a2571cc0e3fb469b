"""Idempotent requests: a request that is sent twice runs once (Idempotency-Key, IETF draft-07).

An idempotency key belongs to the API key that sent it. While the first request runs, others with
the same key are told to wait; afterwards they get the same response, for a day. If a process dies
during a request, its key is free again after a minute. Two kinds of responses are not stored: those
that a retry may improve, and those that must not be stored anywhere.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256

from fastapi import Request
from starlette.responses import Response

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.ports.people.idempotency import (
    IdempotencyStore,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.toolkit.api.problems import ProblemError, ProblemResponse

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEEP = timedelta(hours=24)
#: Longer than any request takes.
LEASE = timedelta(seconds=60)
KEY_LENGTH_MAX = 200
#: A quoted string as the draft has it, or the bare text that most clients send.
KEY_PATTERN = r'^("[!#-~]{1,198}"|[!#-~]{1,200})$'
#: The headers of a response that are stored, and sent again.
_STORED_HEADERS = ("content-type", "location", "etag", "cache-control")

_log = get_logger(__name__)


def request_key(request: Request) -> str | None:
    """Return the request's idempotency key, if it has one."""
    values = request.headers.getlist(HEADER)
    if not values:
        return None
    if len(values) > 1 or not re.fullmatch(KEY_PATTERN, values[0]):
        raise ProblemError(
            "invalid_input",
            f"{HEADER}: must be one text of 1 to {KEY_LENGTH_MAX} visible ASCII characters",
            field=HEADER,
        )
    return values[0].strip('"')


def job_key(owner: str, key: str | None) -> str | None:
    """Return the job's own key: it prevents a second job even if we die before we respond."""
    return None if key is None else f"api:{sha256(f'{owner}:{key}'.encode()).hexdigest()}"


class IdempotentRequests:
    """Runs each request once, however often it is sent."""

    def __init__(self, store: IdempotencyStore) -> None:
        """Store keys and responses in `store`."""
        self._store = store

    async def answer(
        self, request: Request, owner: str, carry_out: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Run the request, or return the response that was stored for its key."""
        key = request_key(request)
        if key is None:
            return await carry_out()
        request_hash = await _hash(request)
        match await self._store.begin(owner, key, request_hash, lease=LEASE):
            case RequestStarted() as claim:
                response = await carry_out()
                await self._remember(owner, key, claim, response)
                return response
            case StoredAnswer() as stored:
                return Response(
                    stored.body,
                    status_code=stored.status,
                    headers={**stored.headers, REPLAYED: "true"},
                )
            case RequestInProgress():
                raise ProblemError(
                    "request_in_flight",
                    "the first request with this key has not been answered yet",
                    headers={"Retry-After": "1"},
                )
            case RequestMismatch():
                raise ProblemError(
                    "idempotency_key_reused", "the key was used before for a different request"
                )

    async def _remember(
        self, owner: str, key: str, claim: RequestStarted, response: Response
    ) -> None:
        if not _may_be_stored(response):
            await self._store.abandon(owner, key, claim)
            return
        stored_headers = {
            name: response.headers[name] for name in _STORED_HEADERS if name in response.headers
        }
        stored = StoredAnswer(
            status=response.status_code, headers=stored_headers, body=bytes(response.body)
        )
        if not await self._store.finish(owner, key, claim, stored, keep=KEEP):
            _log.warning(LogEvent.IDEMPOTENCY_KEY_LOST, key_of=owner)


def _may_be_stored(response: Response) -> bool:
    if isinstance(response, ProblemResponse) and response.retryable:
        return False
    return response.status_code < 500 and "no-store" not in response.headers.get(
        "cache-control", ""
    )


async def _hash(request: Request) -> str:
    """Hash the request: its method, target and exact bytes."""
    target = f"{request.method} {request.url.path}?{request.url.query}\n"
    return sha256(target.encode() + await request.body()).hexdigest()
