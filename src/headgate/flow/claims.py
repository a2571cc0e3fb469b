"""The rows that this process has claimed, of one leased type, and how their leases are kept."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Generic

import msgspec

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.flow.measurements import Measurements
from headgate.model.lease import Claim, Row
from headgate.ports.leases import Leases

#: A worker that is silent for so long has lost its claims.
LEASE = timedelta(seconds=60)
#: Beats in the time of one lease: two may be missed before the third comes too late.
BEATS_PER_LEASE = 3
#: Claims that were not seen to stand for so long, in leases, are looked at before they are used.
MISSED_LEASES = 0.5

_log = get_logger(__name__)


class ActiveClaim(Generic[Row]):
    """One claimed row while this process works on it."""

    def __init__(self, row: Row) -> None:
        """Hold `row` as it was claimed."""
        self.row = row

    def on_found(self, state: Any) -> None:
        """The claim stands, and the row is in this state."""

    def on_lost(self) -> None:
        """The claim is another's: discard everything."""


class ActiveClaims(Generic[Row]):
    """Every claim of this process on rows of one leased type."""

    def __init__(
        self,
        leases: Leases[Row, Any, Any],
        clock: Clock,
        *,
        lease: timedelta = LEASE,
        measurements: Measurements | None = None,
    ) -> None:
        """Keep claims of `leases` for `lease` at a time, and count those that are lost."""
        self.leases = leases
        self.clock = clock
        self.lease = lease
        self._measurements = measurements or Measurements()
        self._claims: dict[str, ActiveClaim[Row]] = {}
        #: When the oldest of the claims was last seen to stand, by the monotonic clock.
        self._seen_s = 0.0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._claims)

    def __iter__(self) -> Iterator[ActiveClaim[Row]]:
        """The claims at present; the set may change while they are looked at."""
        return iter(list(self._claims.values()))

    def add(self, claims: Iterable[ActiveClaim[Row]], *, seen_s: float) -> None:
        """Begin to keep what was claimed then, by the monotonic clock."""
        self._seen_s = min(self._seen_s, seen_s) if self._claims else seen_s
        self._claims.update((each.row.id, each) for each in claims)

    def has(self, row: Row) -> bool:
        """Whether it is still claimed under the token it was claimed by."""
        claim = self._claims.get(row.id)
        return claim is not None and claim.row.token == row.token

    def drop(self, row: Row) -> None:
        """Keep it no longer."""
        if self.has(row):
            del self._claims[row.id]

    def lose(self, row: Row) -> None:
        """Its claim was found to be another's: keep it no longer.

        It is counted once, whether a settle or the heartbeat has found it first.
        """
        if self.has(row):
            self.drop(row)
            self.count_lost(1)

    def count_lost(self, claims: int) -> None:
        """So many that were given up here already were found to be another's."""
        self._measurements.lost_claims.add(self.leases.kind.machine.name, claims)

    @property
    def may_have_expired(self) -> bool:
        """Whether a beat was missed: then a claim may have run out."""
        age_s = self.clock.monotonic() - self._seen_s
        return age_s > self.lease.total_seconds() * MISSED_LEASES

    async def extend(self) -> None:
        """Extend all leases in one write, and keep no longer what is lost.

        Nothing is written where nothing is claimed. What is settled or claimed meanwhile is not
        lost: its claim is looked up again after the write.
        """
        if not self._claims:
            return
        began_s = self.clock.monotonic()
        claims = list(self._claims.values())
        states = await self.leases.extend(
            [Claim(each.row.id, each.row.token) for each in claims], lease=self.lease
        )
        self._seen_s = began_s
        lost = [each for each in claims if each.row.id not in states and self.has(each.row)]
        for each in lost:
            self.lose(each.row)
            each.on_lost()
        for each in claims:
            if each.row.id in states:
                each.on_found(states[each.row.id])
        if lost:
            _log.warning("claims_lost", of=self.leases.kind.machine.name, count=len(lost))


class LeasedWork(msgspec.Struct, frozen=True):
    """A leased type, as a worker process looks after it."""

    claims: ActiveClaims[Any]
    #: Puts right what is due; how many rows that were.
    sweep: Callable[[], Awaitable[int]]
