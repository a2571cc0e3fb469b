"""One of all processes sweeps: rescues, thaws, prunes. Who, is decided by a lease row."""

from datetime import timedelta

from headgate.base.service import Service
from headgate.flow.recover import rescue_expired, thaw_paused
from headgate.flow.runtime import Runtime
from headgate.ports.signal import CONTROL, SWEEP
from headgate.ports.store import Leader

SEAT = "sweeper"
#: Look at least this often, in leases; more often when a lease or a cool-down ends sooner.
SWEEP_LEASES = 2 / 3
#: A leader that has missed this many looks is replaced.
LOOKS_PER_TERM = 2
#: Never look more often than this, however much is due.
SWEEP_S_MIN = 0.1
PRUNE_EVERY_S = 3600.0
PRUNE_MAX = 5000


class Sweeper(Service):
    """Sweeps while it leads; else waits for the seat."""

    name = "sweeper"

    def __init__(self, rt: Runtime, *, worker: str, lease_s: float, keep_events: timedelta) -> None:
        """Sweep as `worker`; events older than `keep_events` are deleted."""
        super().__init__(rt.clock)
        self._sweep_s_max = lease_s * SWEEP_LEASES
        self._term = timedelta(seconds=LOOKS_PER_TERM * self._sweep_s_max)
        self._rt = rt
        self._worker = worker
        self._keep_events = keep_events
        self._leader: Leader | None = None
        self._prune_at = rt.clock.monotonic()
        # A cancel sets a deadline, a recovered provider sets jobs free: both are due soon.
        for topic in (CONTROL, SWEEP):
            rt.signal.subscribe(topic, self)

    async def run_once(self) -> float:
        """One sweep; rests until the next lease, deadline or cool-down ends."""
        self._leader = await self._rt.store.lead(SEAT, holder=self._worker, term=self._term)
        if self._leader is None:
            return self._sweep_s_max
        due_s = self._leader.due_s
        if due_s is not None and due_s <= 0:
            await self._sweep(self._leader)
            due_s = await self._rt.store.next_sweep_s()
        pruned_all = await self._prune(self._leader)
        if not pruned_all:
            return SWEEP_S_MIN
        return self._sweep_s_max if due_s is None else min(self._sweep_s_max, due_s) + SWEEP_S_MIN

    async def stop(self) -> None:
        """Stop, and leave the seat to others at once."""
        await super().stop()
        if self._leader is not None:
            leader, self._leader = self._leader, None
            await self._rt.store.resign(leader)

    async def _sweep(self, leader: Leader) -> None:
        rescued = await rescue_expired(self._rt, leader)
        thawed = await thaw_paused(self._rt, leader)
        self._log.info("swept", rescued=rescued, thawed=thawed)

    async def _prune(self, leader: Leader) -> bool:
        """Delete one batch of old events, if it is time; False when there are more."""
        if self._rt.clock.monotonic() < self._prune_at:
            return True
        pruned = await self._rt.store.prune_events(
            leader, older_than=self._keep_events, limit=PRUNE_MAX
        )
        if pruned == PRUNE_MAX:
            return False
        self._prune_at = self._rt.clock.monotonic() + PRUNE_EVERY_S
        return True
