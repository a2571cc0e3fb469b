"""This module holds the planned faults, and decides which of them strike a request.

What a fault does to a request is in `injection.py`.
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
from headgate_sandbox.kit.seeded import draw

FAULTS_MAX = 1_000
SECONDS_MAX = 86_400.0


class FaultKind(StrEnum):
    """The kinds of fault."""

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
    #: No answer until the client leaves or `seconds` have passed.
    TIME_OUT = "time_out"
    #: The answer comes `seconds` late.
    SLOW = "slow"
    #: A body that is not JSON at all.
    MALFORMED = "malformed"
    #: JSON that ends in the middle.
    TRUNCATED = "truncated"
    #: The provider's own headers are missing.
    NO_HEADERS = "no_headers"
    #: The access token that the request carries expires now, and stays expired.
    TOKEN_EXPIRED = "token_expired"


#: These kinds answer in place of the endpoint; with `after`, the endpoint does its work first.
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
    """One fault; it strikes a request that meets every condition given here."""

    kind: FaultKind
    #: The paths, as a shell pattern such as `/api/v3/activities/*/streams`.
    path: str = "*"
    method: str | None = None
    #: Strike this many times, then never again.
    times: int | None = None
    #: Strike with this probability; each fault draws from its own random stream.
    probability: float | None = None
    #: Strike from this moment on ...
    starts_at: datetime | None = None
    #: ... and until just before this moment.
    ends_at: datetime | None = None
    #: The status of a server error; None means 500.
    status: int | None = None
    #: How long a slow answer takes, or how long a time-out lasts at most.
    seconds: float | None = None
    #: Whether the request takes effect before its answer is lost.
    after: bool = False

    def __post_init__(self) -> None:
        """Refuse values that make no sense; the error names the field."""
        _check_when(self)
        _check_what(self)


class Faults:
    """The planned faults, in the order they were added."""

    def __init__(self, clock: Clock, seed: int) -> None:
        """Begin without faults."""
        self._clock = clock
        self._seed = seed
        self._plan: dict[int, _Planned] = {}
        self._added = 0

    def add(self, *faults: Fault) -> list[int]:
        """Plan these faults too; returns the numbers by which they can be removed."""
        if len(self._plan) + len(faults) > FAULTS_MAX:
            raise InvalidInput("faults", f"more than {FAULTS_MAX} at once; clear some first")
        return [self._add(fault) for fault in faults]

    def next(self, kind: FaultKind, times: int = 1, path: str = "*") -> int:
        """Plan a fault for the next `times` requests to that path, which is the usual case."""
        return self._add(Fault(kind=kind, times=times, path=path))

    def remove(self, number: int) -> bool:
        """Remove a fault; False if no fault has that number."""
        return self._plan.pop(number, None) is not None

    def clear(self) -> None:
        """Remove all faults; later ones still draw from new random streams."""
        self._plan.clear()

    def fire(self, method: str, path: str) -> list[Fault]:
        """The faults that strike this request; counts each strike."""
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
    """A planned fault, and how often it has struck."""

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
        # Drawn last, so that requests that the fault cannot strike do not advance its stream.
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
