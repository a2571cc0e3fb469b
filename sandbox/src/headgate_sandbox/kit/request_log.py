"""This module logs the requests that arrived, for tests and for `GET /_sandbox/stats`."""

from collections import Counter, deque
from datetime import datetime

import msgspec

from headgate.base.encoding import JsonObject

#: How many of the latest requests are kept; the total counts all of them.
KEPT_MAX = 100_000


class Seen(msgspec.Struct, kw_only=True, gc=False):
    """One request that arrived."""

    at: datetime
    method: str
    #: The pattern, such as `/api/v3/activities/{id}`; empty if no route matched.
    path: str
    #: The user whose credentials the request carried, if any.
    user: str | None = None
    #: Zero until the request is answered; stays zero if the client left.
    status: int = 0


class RequestLog:
    """The requests, newest last."""

    def __init__(self) -> None:
        """Begin empty."""
        self.entries: deque[Seen] = deque(maxlen=KEPT_MAX)
        self.total = 0

    def add(self, seen: Seen) -> Seen:
        """Log a request when it arrives; its status is set later."""
        self.entries.append(seen)
        self.total += 1
        return seen

    def matching(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        user: str | None = None,
        status: int | None = None,
    ) -> list[Seen]:
        """The kept requests that match every given value."""
        return [
            seen
            for seen in self.entries
            if method in (None, seen.method)
            and path in (None, seen.path)
            and user in (None, seen.user)
            and status in (None, seen.status)
        ]

    def count(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        user: str | None = None,
        status: int | None = None,
    ) -> int:
        """How many of the kept requests match every given value."""
        return len(self.matching(method=method, path=path, user=user, status=status))

    def stats(self) -> JsonObject:
        """The total, and counts by method, path and status."""
        counts = Counter(
            f"{seen.method} {seen.path or '(no such path)'} {seen.status or '(no answer)'}"
            for seen in self.entries
        )
        return {"total": self.total, "by_answer": dict(sorted(counts.items()))}

    def reset(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self.total = 0
