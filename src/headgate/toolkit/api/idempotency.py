"""Requests that come twice and are carried out once (Idempotency-Key, draft-07 of the IETF).

The key belongs to the API key that it came with. While the first request is under way, others with
the same key are told to wait; afterwards they get the same answer, for a day. A request that died
on its way frees its key after a minute. Not remembered is an answer that another try may better,
and one that must not be stored anywhere.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256

from fastapi import Request
from starlette.responses import Response

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.ports.idempotency import (
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
#: A structured string, or the bare text that most clients send.
KEY_PATTERN = r'^("[!#-~]{1,198}"|[!#-~]{1,200})$'
#: What of an answer's headers is told again.
_KEPT_HEADERS = ("content-type", "location", "etag", "cache-control")

_log = get_logger(__name__)


def key_of(request: Request) -> str | None:
    """The request's key, if it has one."""
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
    """The same for the job itself: even if we die before we answer, there is no second one."""
    return None if key is None else f"api:{sha256(f'{owner}:{key}'.encode()).hexdigest()}"


class IdempotentRequests:
    """Carries requests out once."""

    def __init__(self, store: IdempotencyStore) -> None:
        """Remember them in `store`."""
        self._store = store

    async def answer(
        self, request: Request, owner: str, carry_out: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer to the request: by carrying it out, or as it was given before."""
        key = key_of(request)
        if key is None:
            return await carry_out()
        request_hash = await _hash(request)
        match await self._store.begin(owner, key, request_hash, lease=LEASE):
            case RequestStarted() as begun:
                response = await carry_out()
                await self._remember(owner, key, begun, response)
                return response
            case StoredAnswer() as answered:
                return Response(
                    answered.body,
                    status_code=answered.status,
                    headers={**answered.headers, REPLAYED: "true"},
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
        self, owner: str, key: str, begun: RequestStarted, response: Response
    ) -> None:
        if not _may_be_kept(response):
            await self._store.abandon(owner, key, begun)
            return
        kept = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        answered = StoredAnswer(
            status=response.status_code, headers=kept, body=bytes(response.body)
        )
        if not await self._store.finish(owner, key, begun, answered, keep=KEEP):
            _log.warning(LogEvent.IDEMPOTENCY_KEY_LOST, key_of=owner)


def _may_be_kept(response: Response) -> bool:
    if isinstance(response, ProblemResponse) and response.retryable:
        return False
    return response.status_code < 500 and "no-store" not in response.headers.get(
        "cache-control", ""
    )


async def _hash(request: Request) -> str:
    """Of what was asked: where, and the very bytes."""
    target = f"{request.method} {request.url.path}?{request.url.query}\n"
    return sha256(target.encode() + await request.body()).hexdigest()
