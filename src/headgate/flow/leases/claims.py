"""The claims of this process on rows of one leased type, and the extension of their leases."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Generic

import msgspec

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.measurements import Measurements
from headgate.model.lease import Claim, Row
from headgate.ports.leases import Leases

#: A worker without a heartbeat for so long loses its claims.
LEASE = timedelta(seconds=60)
#: Heartbeats per lease; two may fail before the lease expires.
BEATS_PER_LEASE = 3
#: Claims that were last confirmed longer ago than this, in leases, are checked before use.
MISSED_LEASES = 0.5

_log = get_logger(__name__)


class ActiveClaim(Generic[Row]):
    """One claimed row while this process works on it."""

    def __init__(self, row: Row) -> None:
        """Begin with the row as it was claimed."""
        self.row = row

    def on_found(self, state: Any) -> None:
        """Called when the claim was extended; the row is in this state."""

    def on_lost(self) -> None:
        """Called when another worker has the row: discard all work on it."""


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
        """Extend claims on rows of `leases` by `lease` at a time, and count those that are lost."""
        self.leases = leases
        self.clock = clock
        self.lease = lease
        self._measurements = measurements or Measurements()
        self._claims: dict[str, ActiveClaim[Row]] = {}
        #: When all claims were last known to be valid, by the monotonic clock.
        self._seen_s = 0.0

    def __len__(self) -> int:
        """The number of claims."""
        return len(self._claims)

    def __iter__(self) -> Iterator[ActiveClaim[Row]]:
        """The present claims; the set may change during the iteration."""
        return iter(list(self._claims.values()))

    def add(self, claims: Iterable[ActiveClaim[Row]], *, seen_s: float) -> None:
        """Add claims that were made at the monotonic time `seen_s`.

        This process may get a row again whose lease it has let expire, before it has noticed:
        then whoever still works under the old claim has lost it.
        """
        self._seen_s = min(self._seen_s, seen_s) if self._claims else seen_s
        for each in claims:
            expired = self._claims.get(each.row.id)
            self._claims[each.row.id] = each
            if expired is not None:
                self.count_lost(1)
                expired.on_lost()

    def has(self, row: Row) -> bool:
        """Whether the row is still claimed under its token."""
        claim = self._claims.get(row.id)
        return claim is not None and claim.row.token == row.token

    def drop(self, row: Row) -> None:
        """Stop extending the claim on the row."""
        if self.has(row):
            del self._claims[row.id]

    def lose(self, row: Row) -> None:
        """Drop the claim, because another worker has the row.

        It is counted once, whether a settle or the heartbeat notices it first.
        """
        if self.has(row):
            self.drop(row)
            self.count_lost(1)

    def count_lost(self, claims: int) -> None:
        """Count claims that were dropped before they were found to be lost."""
        self._measurements.lost_claims.add(self.leases.kind.machine.name, claims)

    @property
    def may_have_expired(self) -> bool:
        """Whether a heartbeat was missed, so that a claim may have expired."""
        age_s = self.clock.monotonic() - self._seen_s
        return age_s > self.lease.total_seconds() * MISSED_LEASES

    async def extend(self) -> None:
        """Extend all leases in one write, and drop the claims that are lost.

        Nothing is written if nothing is claimed. A row that is settled or claimed during the write
        does not count as lost: its claim is checked again after the write.
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
            _log.warning(LogEvent.CLAIMS_LOST, of=self.leases.kind.machine.name, count=len(lost))


class LeasedWork(msgspec.Struct, frozen=True):
    """A leased type in a worker process: its claims, and how its rows are swept."""

    claims: ActiveClaims[Any]
    #: Repairs the rows that are due; returns how many.
    sweep: Callable[[], Awaitable[int]]
