"""Faults on demand: which there are, when one strikes, and the plan that holds them.

Owns the decision alone. What a fault does to a request is in `injection.py`.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.sandbox.kit.seeded import draw

FAULTS_MAX = 1_000
SECONDS_MAX = 86_400.0


class FaultKind(StrEnum):
    """What goes wrong."""

    #: 429 in the provider's words, though its limits are not spent.
    RATE_LIMITED = "rate_limited"
    #: 403 in the provider's words.
    FORBIDDEN = "forbidden"
    #: A 5xx in the provider's words; `status` says which.
    SERVER_ERROR = "server_error"
    #: A gateway's 503 in HTML, without any header of the provider's.
    OUTAGE = "outage"
    #: The provider's error body under status 200.
    ERROR_IN_200 = "error_in_200"
    #: No answer at all until the client leaves, or `seconds` have passed.
    TIME_OUT = "time_out"
    #: The answer comes `seconds` late.
    SLOW = "slow"
    #: A body that never was JSON.
    MALFORMED = "malformed"
    #: JSON that ends in the middle.
    TRUNCATED = "truncated"
    #: The provider's own headers are missing.
    NO_HEADERS = "no_headers"
    #: The access token that the request carries expires now, and for good.
    TOKEN_EXPIRED = "token_expired"


#: These answer in place of the endpoint; `after` decides whether it did its work first.
ANSWERING = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.FORBIDDEN,
        FaultKind.SERVER_ERROR,
        FaultKind.OUTAGE,
        FaultKind.ERROR_IN_200,
        FaultKind.TIME_OUT,
    }
)
_TIMED = frozenset({FaultKind.SLOW, FaultKind.TIME_OUT})


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, and when it strikes: whenever everything that is given here holds."""

    kind: FaultKind
    #: Which paths, as a shell pattern: `/api/v3/activities/*/streams`.
    path: str = "*"
    method: str | None = None
    #: Strike this often, then never again.
    times: int | None = None
    #: Strike with this probability, from a stream of the fault's own.
    probability: float | None = None
    #: Strike from here on ...
    starts_at: datetime | None = None
    #: ... and until just before here.
    ends_at: datetime | None = None
    #: The status of a server error; 500 unless told.
    status: int | None = None
    #: How long a slow answer takes, or how long a time-out lasts at most.
    seconds: float | None = None
    #: The request takes effect first, and only then is its answer lost.
    after: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense, by the name of the field."""
        _check_when(self)
        _check_what(self)


class Faults:
    """The plan: faults in the order they were added."""

    def __init__(self, clock: Clock, seed: int) -> None:
        """Begin with none."""
        self._clock = clock
        self._seed = seed
        self._plan: dict[int, _Planned] = {}
        self._added = 0

    def add(self, *faults: Fault) -> list[int]:
        """Plan these too; their numbers, by which they can be removed."""
        if len(self._plan) + len(faults) > FAULTS_MAX:
            raise InvalidInput("faults", f"more than {FAULTS_MAX} at once; clear some first")
        return [self._add(fault) for fault in faults]

    def next(self, kind: FaultKind, times: int = 1, path: str = "*") -> int:
        """The usual case: the next so many requests to that path."""
        return self._add(Fault(kind=kind, times=times, path=path))

    def remove(self, number: int) -> bool:
        """Drop one; False if there is none of that number."""
        return self._plan.pop(number, None) is not None

    def clear(self) -> None:
        """Drop all; what is added next draws from fresh streams all the same."""
        self._plan.clear()

    def fire(self, method: str, path: str) -> list[Fault]:
        """The faults that strike this request, each counted."""
        now = self._clock.now()
        struck = [each.fault for each in self._plan.values() if each.fires(method, path, now)]
        for number in [number for number, each in self._plan.items() if each.is_spent(now)]:
            del self._plan[number]
        return struck

    def stats(self) -> list[JsonObject]:
        """The faults still planned, and how often each has struck."""
        return [
            {"number": number, "struck": each.struck, "fault": each.fault}
            for number, each in self._plan.items()
        ]

    def _add(self, fault: Fault) -> int:
        self._added += 1
        stream = draw(self._seed, "fault", self._added)
        self._plan[self._added] = _Planned(fault, stream)
        return self._added


class _Planned:
    """A fault with what it has done so far."""

    def __init__(self, fault: Fault, stream: Random) -> None:
        self.fault = fault
        self.struck = 0
        self._stream = stream

    def fires(self, method: str, path: str, now: datetime) -> bool:
        fault = self.fault
        if fault.method not in (None, method) or not fnmatchcase(path, fault.path):
            return False
        if fault.starts_at is not None and now < fault.starts_at:
            return False
        if self.is_spent(now):
            return False
        # Drawn last, so that requests it could not strike do not move its stream.
        if fault.probability is not None and self._stream.random() >= fault.probability:
            return False
        self.struck += 1
        return True

    def is_spent(self, now: datetime) -> bool:
        fault = self.fault
        over = fault.ends_at is not None and now >= fault.ends_at
        return over or (fault.times is not None and self.struck >= fault.times)


def _check_when(fault: Fault) -> None:
    if fault.times is not None and fault.times < 1:
        raise InvalidInput("times", "must be 1 or more")
    if fault.probability is not None and not 0 < fault.probability <= 1:
        raise InvalidInput("probability", "must be above 0 and at most 1")
    for field, moment in (("starts_at", fault.starts_at), ("ends_at", fault.ends_at)):
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput(field, "needs a time zone, such as 2026-01-01T00:00:00Z")
    if fault.starts_at and fault.ends_at and fault.ends_at <= fault.starts_at:
        raise InvalidInput("ends_at", "must be later than starts_at")


def _check_what(fault: Fault) -> None:
    if fault.status is not None:
        if fault.kind is not FaultKind.SERVER_ERROR:
            raise InvalidInput("status", _only("status", [FaultKind.SERVER_ERROR]))
        if not 500 <= fault.status <= 599:
            raise InvalidInput("status", "must be between 500 and 599")
    if fault.seconds is not None:
        if fault.kind not in _TIMED:
            raise InvalidInput("seconds", _only("seconds", _TIMED))
        if not 0 < fault.seconds <= SECONDS_MAX:
            raise InvalidInput("seconds", f"must be above 0 and at most {SECONDS_MAX:.0f}")
    elif fault.kind is FaultKind.SLOW:
        raise InvalidInput("seconds", "say how late the answer comes")
    if fault.after and fault.kind not in ANSWERING:
        raise InvalidInput("after", _only("after", ANSWERING))


def _only(field: str, kinds: Iterable[FaultKind]) -> str:
    return f"{field} goes with {', '.join(sorted(kinds))} only"
