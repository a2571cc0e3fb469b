"""The jobs that this process holds, and the heartbeat that keeps them its own."""

from collections.abc import Iterator
from datetime import timedelta

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.holding import Holding, Interrupt
from headgate.model.states import JobState
from headgate.ports.store import Held, Store

#: Beats in the time of one lease: two may be missed before the third comes too late.
BEATS_PER_LEASE = 3


class Holdings:
    """Every job held by this process, whichever lane works on it."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._held: dict[str, Holding] = {}

    def __len__(self) -> int:
        """How many jobs are held."""
        return len(self._held)

    def __iter__(self) -> Iterator[Holding]:
        """The jobs held now; the set may change while they are looked at."""
        return iter(list(self._held.values()))

    def add(self, holding: Holding) -> None:
        """Begin to hold."""
        self._held[holding.job.id] = holding

    def drop(self, holding: Holding) -> None:
        """Hold no longer."""
        if self._held.get(holding.job.id) is holding:
            del self._held[holding.job.id]


class Heartbeat(Service):
    """Extends the leases of everything held, in one write; tells who must let go."""

    name = "heartbeat"

    def __init__(self, holdings: Holdings, store: Store, clock: Clock, *, lease_s: float) -> None:
        """Keep `holdings` for `lease_s` at a time."""
        super().__init__(clock)
        self._holdings = holdings
        self._store = store
        self._lease = timedelta(seconds=lease_s)

    async def run_once(self) -> float | None:
        """One beat; nothing is written where nothing is held.

        What was claimed since the last beat has a fresh lease, which lasts until the next.
        """
        rest_s = self._lease.total_seconds() / BEATS_PER_LEASE
        held = list(self._holdings)
        if not held:
            return rest_s
        claims = [Held(each.job.id, each.job.token) for each in held]
        states = await self._store.heartbeat(claims, lease=self._lease)
        for holding in held:
            match states.get(holding.job.id):
                case None:
                    # If it has been settled meanwhile, this reaches nobody.
                    holding.interrupt(Interrupt.LOST)
                case JobState.CANCELLING:
                    holding.interrupt(Interrupt.CANCEL)
        return rest_s
