"""What was answered to requests that may come again, and are carried out once all the same."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

import msgspec


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RequestStarted(msgspec.Struct, frozen=True):
    """The request is ours to carry out until then; it also names our turn at it."""

    until: datetime


class RequestInProgress(msgspec.Struct, frozen=True):
    """The first request with this key has not been answered yet."""


class RequestMismatch(msgspec.Struct, frozen=True):
    """The key was used before for another request."""


#: What is known of a request when it comes in.
Known = RequestStarted | RequestInProgress | RequestMismatch | StoredAnswer


class IdempotencyStore(Protocol):
    """Idempotent requests. Every method is one atomic, durable operation, by the store's time."""

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        """Begin a request, or learn why not. Unanswered after `lease`, it may be begun again."""
        ...

    async def finish(
        self,
        owner: str,
        key: str,
        started: RequestStarted,
        answer: StoredAnswer,
        *,
        keep: timedelta,
    ) -> bool:
        """Remember the answer for as long as `keep`; False where the turn was lost."""
        ...

    async def abandon(self, owner: str, key: str, started: RequestStarted) -> None:
        """Forget the request, so that it can be begun again at once."""
        ...
