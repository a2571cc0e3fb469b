"""A compact log of what arrived, for tests to assert on and for `GET /_sandbox/stats`."""

from collections import Counter, deque
from datetime import datetime

import msgspec

from headgate.base.encoding import JsonObject

#: The latest requests that are kept; the totals go on.
KEPT_MAX = 100_000


class Seen(msgspec.Struct, kw_only=True, gc=False):
    """One request, in the order of arrival."""

    at: datetime
    method: str
    #: The pattern, such as `/api/v3/activities/{id}`; empty where no route matched.
    path: str
    #: Whose credentials it carried, if anyone's.
    user: str | None = None
    #: Zero while it has no answer, and for ever if the client left.
    status: int = 0


class RequestLog:
    """The requests, newest last."""

    def __init__(self) -> None:
        """Begin empty."""
        self.entries: deque[Seen] = deque(maxlen=KEPT_MAX)
        self.total = 0

    def add(self, seen: Seen) -> Seen:
        """Enter a request on its arrival; its status follows."""
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
        """The kept requests that match everything given."""
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
        """How many of the kept requests match everything given."""
        return len(self.matching(method=method, path=path, user=user, status=status))

    def stats(self) -> JsonObject:
        """Totals by what was asked and what was answered."""
        counts = Counter(
            f"{seen.method} {seen.path or '(no such path)'} {seen.status or '(no answer)'}"
            for seen in self.entries
        )
        return {"total": self.total, "by_answer": dict(sorted(counts.items()))}

    def reset(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self.total = 0
