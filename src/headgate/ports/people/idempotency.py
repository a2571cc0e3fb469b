"""The store of idempotent requests: a repeated request gets the answer of the first one."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

import msgspec


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the first request, as it is stored."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RequestStarted(msgspec.Struct, frozen=True):
    """The caller may carry out the request until `until`.

    That time also identifies the caller's claim: `finish` and `abandon` name it.
    """

    until: datetime


class RequestInProgress(msgspec.Struct, frozen=True):
    """The first request with this key has not been answered yet."""


class RequestMismatch(msgspec.Struct, frozen=True):
    """The key was used before for another request."""


#: The outcomes of `begin`.
Known = RequestStarted | RequestInProgress | RequestMismatch | StoredAnswer


class IdempotencyStore(Protocol):
    """Idempotent requests. Every method is one atomic, durable operation, by the store's time."""

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        """Begin a request, or return why not; without an answer it may begin again after `lease`.

        The lease is the time that the caller has to answer.
        """
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
        """Store the answer for the time `keep`; False if the claim was lost."""
        ...

    async def abandon(self, owner: str, key: str, started: RequestStarted) -> None:
        """Delete the request, so that it can begin again at once."""
        ...
