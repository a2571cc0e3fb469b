"""Budgets: the limits of a provider, the requests that spend them, and the limiter's answers.

A budget is declared once, with its source. A `Ledger` counts what has been spent: one for the whole
application, and one for each connection where a limit is per connection. A ledger is a plain value;
`policy/spending.py` decides with it, and a limiter stores it where every worker sees it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.base.errors import InvalidInput
from headgate.model.job import Lane

_UNITS_S = {"s": 1, "min": 60, "h": 3600, "hour": 3600, "day": 86400, "d": 86400}
_PER = re.compile(r"(\d*)\s*([a-z]+)")
#: A window longer than a month is a mistake in the unit.
PER_S_MAX = 31 * 86400
#: The kind of a limit that counts every request, whatever it does.
ANY_KIND = ""


class Scope(StrEnum):
    """Who shares a limit."""

    #: All requests of the application share it, whichever user they are for.
    APP = "app"
    #: Each connection has its own.
    CONNECTION = "connection"


class Limit(msgspec.Struct, frozen=True):
    """At most `amount` requests in a window: `Limit(100, per="15min", reserve=20)`."""

    amount: int
    per: str
    #: Requests of each window that a backfill leaves for live work.
    reserve: int = 0
    #: Only requests of this kind count, such as `"read"`; by default all do.
    only: str = ANY_KIND
    scope: Scope = Scope.APP
    #: The window slides with the clock. Else it begins at fixed times: quarter hours, midnight UTC.
    rolling: bool = False

    @property
    def seconds(self) -> int:
        """The length of the window; ValueError if `per` cannot be parsed."""
        found = _PER.fullmatch(self.per)
        if found is None or found[2] not in _UNITS_S:
            raise ValueError(self.per)
        return int(found[1] or 1) * _UNITS_S[found[2]]

    @property
    def name(self) -> str:
        """The limit's name in metrics and reports: `15min`, `read 15min`, `min per connection`."""
        whose = " per connection" if self.scope is Scope.CONNECTION else ""
        return f"{self.only} {self.per}{whose}".strip()


class Budget(msgspec.Struct, frozen=True):
    """All limits on the requests to one provider."""

    #: The provider's name; sources of the same name share one budget.
    source: str
    limits: Sequence[Limit]
    #: The most requests that run at the same time; None: no limit.
    slots: int | None = None
    slots_scope: Scope = Scope.APP
    #: A slot that a dead worker never releases is free again after this time.
    slot_lease_s: float = 120.0
    #: How far the provider's clock and ours may be apart, plus how long a request may travel.
    #: A request this close to the edge of a window counts in both windows.
    guard_s: float = 2.0
    #: Let the reserve shrink as the window ends, down to what live work will probably need.
    reserve_decay: bool = False
    #: Spread a backfill over the shortest window instead of spending the window at once.
    paced: bool = True
    #: The shortest time between two requests of a backfill, however much is left.
    pace_s_min: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a budget that can never work, naming the source and the limit."""
        # Callers may pass a list; a tuple can be hashed.
        msgspec.structs.force_setattr(self, "limits", tuple(self.limits))
        if not self.source or not self.source.isprintable():
            raise InvalidInput("source", f"{self.source!r} must be printable, and not empty")
        if self.slots is not None and self.slots < 1:
            raise InvalidInput(f"{self.source}.slots", f"is {self.slots}; must be at least 1")
        if not 0 < self.slot_lease_s < PER_S_MAX:
            raise InvalidInput(f"{self.source}.slot_lease_s", "must be above 0 and below 31 days")
        for field in ("guard_s", "pace_s_min"):
            if not 0 <= getattr(self, field) < PER_S_MAX:
                raise InvalidInput(f"{self.source}.{field}", "must be between 0 and 31 days")
        names: set[str] = set()
        for limit in self.limits:
            self._check(limit)
            if limit.name in names:
                raise InvalidInput(f"{self.source}.limits", f"two are called {limit.name!r}")
            names.add(limit.name)

    def _check(self, limit: Limit) -> None:
        where = f"{self.source}.Limit({limit.amount}, per={limit.per!r})"
        try:
            seconds = limit.seconds
        except ValueError:
            raise InvalidInput(
                where, f"per={limit.per!r} is not known; write 30s, min, 15min, hour or day"
            ) from None
        if not 1 <= seconds <= PER_S_MAX:
            raise InvalidInput(where, "the window must be between a second and 31 days")
        if limit.amount < 1:
            raise InvalidInput(where, "the amount must be at least 1")
        if limit.reserve < 0:
            raise InvalidInput(where, f"reserve={limit.reserve} must not be negative")
        if limit.reserve >= limit.amount:
            raise InvalidInput(
                where, f"reserve={limit.reserve} must be below the amount, or backfill never runs"
            )
        if 2 * self.guard_s >= seconds:
            raise InvalidInput(
                where, f"guard_s={self.guard_s:g} must be below half of the window ({seconds} s)"
            )

    def ledger_key(self, scope: Scope, connection_id: str) -> str:
        """The name of the ledger that counts limits of this scope."""
        return self.source if scope is Scope.APP else f"{self.source}/{connection_id}"

    def limits_for(self, kind: str) -> list[Limit]:
        """The limits against which a request of this kind counts."""
        return [limit for limit in self.limits if limit.only in (ANY_KIND, kind)]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of the ledgers that a request changes, always in the same order."""
        used = {limit.scope for limit in self.limits}
        if self.slots is not None:
            used.add(self.slots_scope)
        return tuple(scope for scope in Scope if scope in used)


class BudgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that asks the limiter whether it may be sent."""

    lane: Lane
    connection_id: str
    #: The kind of request, such as `"read"` or `"upload"`, for limits that count only one kind.
    kind: str = "read"
    #: It repeats a failed request; it counts like any other, and is also counted separately.
    retry: bool = False


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The request may be sent. It is counted, whether or not it is ever sent."""

    #: The grant's id, by which its slot is released.
    id: str
    #: When the request was granted, by the limiter's clock.
    at_ms: int
    #: What is left of the tightest window after this request, and when that window ends.
    remaining: int | None
    resets_at: datetime | None


class RefusalReason(StrEnum):
    """Why the limiter refused a request."""

    #: The window has no request left.
    SPENT = "spent"
    #: The rest of the window is reserved for live work.
    RESERVE = "reserve"
    #: The pace of backfills does not allow it yet.
    PACE = "pace"
    #: The provider answered 429, and the budget is closed for everybody.
    CLOSED = "closed"
    #: All slots are in use.
    SLOTS = "slots"
    #: The limiter lost its counts, and the window is short enough to wait for its end.
    UNKNOWN = "unknown"


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """The request must wait; nothing was counted."""

    reason: RefusalReason
    #: When to ask again, by the limiter's clock, and how many seconds that is from now.
    until: datetime
    wait_s: float
    #: The name of the limit that caused the refusal, if one did.
    limit: str | None = None


class Unreachable(msgspec.Struct, frozen=True, kw_only=True):
    """The limiter does not answer."""

    error: str


Answer = Granted | Exhausted | Unreachable


class BudgetClosure(msgspec.Struct, frozen=True, kw_only=True):
    """The closure of a budget for everybody, because the provider answered 429."""

    until: datetime
    #: Seconds until then, by the limiter's clock.
    wait_s: float

    @staticmethod
    def of(until: int, now: int) -> "BudgetClosure":
        """The closure until `until`, by the limiter's clock in milliseconds."""
        return BudgetClosure(until=from_ms(until), wait_s=(until - now) / 1000)


# ---- ledgers -----------------------------------------------------------------------------------


class Bucket(msgspec.Struct, omit_defaults=True):
    """The requests of one stretch of time: a whole window, or a part of a rolling one."""

    used: int = 0
    hot: int = 0
    cold: int = 0
    retries: int = 0
    #: The provider's own count, from its answers.
    theirs: int = 0
    #: Those of `used` that ended in a later part of a rolling window, and are counted there.
    moved: int = 0
    #: How many requests may be granted before the database has to know of more.
    headroom: int = 0
    #: In the database: how many may have been granted by ledgers that the limiter has lost.
    before: int = 0


class Refusals(msgspec.Struct, omit_defaults=True):
    """The number of refusals in one hour, by reason."""

    spent: int = 0
    reserve: int = 0
    pace: int = 0
    closed: int = 0
    slots: int = 0
    unknown: int = 0
    #: Answers with 429: the provider refused requests that we had granted.
    by_provider: int = 0


class Ledger(msgspec.Struct, omit_defaults=True):
    """The use of a budget under one key. Times are whole milliseconds since 1970."""

    #: A limiter that lost a ledger begins another one, with another id.
    id: str = ""
    #: By the limit's name, then by the number of the stretch: its start divided by its length.
    windows: dict[str, dict[str, Bucket]] = {}
    #: A 429 closed the budget until then.
    closed_until: int = 0
    #: When the next request of a backfill may be sent.
    next_cold: int = 0
    #: When the lease of each used slot ends, by the grant's id.
    slots: dict[str, int] = {}
    #: When the ledger began to count; windows that began earlier may have been used more.
    born: int = 0
    #: Refusals by the number of the hour.
    refusals: dict[str, Refusals] = {}


def to_ms(at: datetime) -> int:
    """A time as whole milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The time that is so many milliseconds after 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


# ---- reports -----------------------------------------------------------------------------------


class WindowUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of one window of a limit."""

    limit: str
    scope: Scope
    amount: int
    used: int
    remaining: int
    reserved: Annotated[
        int, Meta(description="The part of `remaining` that is reserved for live work.")
    ]
    resets_at: datetime
    hot: int
    cold: int
    retries: int
    theirs: Annotated[int | None, Meta(description="The provider's own count.")]
    #: The use is unknown, because the limiter lost its counts; the window counts as spent.
    unknown: bool = False


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a provider's budget."""

    source: str
    connection_id: Annotated[str | None, Meta(description="null: of the whole application.")]
    windows: tuple[WindowUse, ...]
    closed_until: datetime | None
    next_cold_at: datetime | None
    slots_used: int
    slots: int | None
    #: Refusals of the last 24 hours, by reason.
    refused_24h: dict[str, int]
    #: Answers with 429 in the last 24 hours.
    answers_429_24h: int
