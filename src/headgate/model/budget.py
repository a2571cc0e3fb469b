"""Budgets: what a provider allows, what a request asks for, and the answers it may get.

A budget is declared once, with its source. What has been spent of it is a `Ledger`, one for the
whole application and one for each connection where a limit is per connection. A ledger is a plain
value: `policy/spending.py` decides on it, and a limiter keeps it where every worker sees it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from headgate.base.errors import InvalidInput
from headgate.model.job import Lane

_UNITS_S = {"s": 1, "min": 60, "h": 3600, "hour": 3600, "day": 86400, "d": 86400}
_PER = re.compile(r"(\d*)\s*([a-z]+)")
#: A longer window than a month is a mistake in the unit.
PER_S_MAX = 31 * 86400
#: A request that counts against the limits of everything: reads, uploads, whatever.
ANY_KIND = ""


class Scope(StrEnum):
    """Who shares a limit."""

    #: The whole application, whichever user a request is for.
    APP = "app"
    #: Each user's connection has its own.
    CONNECTION = "connection"


class Limit(msgspec.Struct, frozen=True):
    """So many requests in a window: `Limit(100, per="15min", reserve=20)`."""

    amount: int
    per: str
    #: Requests at the end of each window that backfill leaves for live work.
    reserve: int = 0
    #: Only requests of this kind count: `"read"`, where uploads are counted elsewhere.
    only: str = ANY_KIND
    scope: Scope = Scope.APP
    #: The window slides with the clock. Else it begins at fixed times: quarter hours, midnight UTC.
    rolling: bool = False

    @property
    def seconds(self) -> int:
        """The length of the window; ValueError where `per` cannot be read."""
        found = _PER.fullmatch(self.per)
        if found is None or found[2] not in _UNITS_S:
            raise ValueError(self.per)
        return int(found[1] or 1) * _UNITS_S[found[2]]

    @property
    def name(self) -> str:
        """What it is called where its use is told: `15min`, `read 15min`, `min per connection`."""
        whose = " per connection" if self.scope is Scope.CONNECTION else ""
        return f"{self.only} {self.per}{whose}".strip()


class Budget(msgspec.Struct, frozen=True):
    """Everything that limits the requests to one provider."""

    #: The provider's name: sources of one name share one budget.
    source: str
    limits: Sequence[Limit]
    #: Requests under way at once, at most; None for as many as the workers make.
    slots: int | None = None
    slots_scope: Scope = Scope.APP
    #: A slot that nobody gives back, because its worker died, is free again after this.
    slot_lease_s: float = 120.0
    #: How far the provider's clock and ours may be apart, and how long a request may be on its way.
    #: So close to the edge of a window, a request counts on both sides of it.
    guard_s: float = 2.0
    #: Let the reserve shrink as the window runs out, down to what live work is likely to need.
    reserve_decay: bool = False
    #: Spread backfill over the shortest window instead of spending it at once.
    paced: bool = True
    #: However much is left, backfill leaves so long between two requests.
    pace_s_min: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what could never work, naming the source and the limit."""
        # A list would do to declare it; a tuple can be hashed and compared.
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
        """The name of the ledger that a limit of this scope is kept in."""
        return self.source if scope is Scope.APP else f"{self.source}/{connection_id}"

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The ledgers that a request touches, always in this order."""
        used = {limit.scope for limit in self.limits}
        if self.slots is not None:
            used.add(self.slots_scope)
        return tuple(scope for scope in Scope if scope in used)


class BudgetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that wants to be sent."""

    lane: Lane
    connection_id: str
    #: What it does, for limits that count only some: `"read"`, `"upload"`.
    kind: str = "read"
    #: It repeats a request that failed: counted like any other, and told apart.
    retry: bool = False


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """Send it. It is counted, whether or not it is ever sent."""

    #: Names the grant: gives the slot back, and says which window an answer belongs to.
    id: str
    #: When it was granted, by the limiter's clock.
    at_ms: int
    #: What is left of the tightest window after this, and when that window ends.
    remaining: int | None
    resets_at: datetime | None
    #: How much of the window is used is not known; the answer to this one request will tell.
    probe: bool = False


class RefusalReason(StrEnum):
    """What a refused request ran into."""

    #: The window has no request left.
    SPENT = "spent"
    #: What is left is kept for live work.
    RESERVE = "reserve"
    #: Backfill goes slower than that.
    PACE = "pace"
    #: The provider said 429: closed for everybody.
    CLOSED = "closed"
    #: As many as may be are under way.
    SLOTS = "slots"
    #: What was used has been forgotten, and another request is finding out.
    UNKNOWN = "unknown"


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """Not now; nothing was counted."""

    reason: RefusalReason
    #: When to ask again, by the limiter's clock, and in how many seconds, by anybody's.
    until: datetime
    wait_s: float
    #: The limit it ran into, where it was one.
    limit: str | None = None


class Unreachable(msgspec.Struct, frozen=True, kw_only=True):
    """The limiter does not answer."""

    error: str


Answer = Granted | Exhausted | Unreachable


class BudgetClosure(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that is closed for everybody, because the provider refused a request."""

    until: datetime
    #: The same from now on, by the limiter's clock.
    wait_s: float

    @staticmethod
    def of(until: int, now: int) -> "BudgetClosure":
        """From the limiter's two times, in milliseconds."""
        return BudgetClosure(until=from_ms(until), wait_s=(until - now) / 1000)


# ---- what has been spent -----------------------------------------------------------------------


class Bucket(msgspec.Struct, omit_defaults=True):
    """What was used in one stretch of time: a whole window, or a part of a rolling one."""

    used: int = 0
    hot: int = 0
    cold: int = 0
    retries: int = 0
    #: The provider's own count, as its last answer told it.
    theirs: int = 0


class Refusals(msgspec.Struct, omit_defaults=True):
    """What was refused in one hour, and why."""

    spent: int = 0
    reserve: int = 0
    pace: int = 0
    closed: int = 0
    slots: int = 0
    unknown: int = 0
    #: Answers with 429: the provider refused what we had let through.
    by_provider: int = 0


class Ledger(msgspec.Struct, omit_defaults=True):
    """What has been spent under one key. Times are whole milliseconds since 1970."""

    #: By the limit's name, then by the number of the stretch: its start divided by its length.
    windows: dict[str, dict[str, Bucket]] = {}
    #: BudgetClosure by a 429 until then.
    closed_until: int = 0
    #: Backfill's next request is due then.
    next_cold: int = 0
    #: When each slot in use is free again, by the grant's name.
    slots: dict[str, int] = {}
    #: Windows that began before this may have been used more than is written here.
    born: int = 0
    #: One request is out to learn how much, and has until then.
    probe_until: int = 0
    #: The limits whose use the provider has told since `born`, and in which window.
    told: dict[str, int] = {}
    #: By the hour.
    refusals: dict[str, Refusals] = {}


def to_ms(at: datetime) -> int:
    """A time as whole milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The time that so many milliseconds since 1970 are."""
    return datetime.fromtimestamp(ms / 1000, UTC)


# ---- what is told about it ---------------------------------------------------------------------


class WindowUse(msgspec.Struct, frozen=True, kw_only=True):
    """How one window stands."""

    limit: str
    scope: Scope
    amount: int
    used: int
    remaining: int
    #: What of the remaining is kept for live work now.
    reserved: int
    resets_at: datetime
    hot: int
    cold: int
    retries: int
    #: The provider's own count, where it has told one in this window.
    theirs: int | None
    #: What was used is not known: it counts as spent until the provider tells.
    unknown: bool = False


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """How a budget stands: for the dashboard, the command line and the metrics."""

    source: str
    connection_id: str | None
    windows: tuple[WindowUse, ...]
    closed_until: datetime | None
    next_cold_at: datetime | None
    slots_used: int
    slots: int | None
    #: Refusals of the last 24 hours, by what they ran into.
    refused_24h: dict[str, int]
    #: Answers with 429 in the last 24 hours.
    answers_429_24h: int
