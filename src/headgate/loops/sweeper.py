"""Every process sweeps: it rescues, thaws, prunes, and frees what a frozen worker keeps locked.

There is no leader. A rescue and a thaw are fenced by the row's token, which both raise, and so does
an operator's pause: two sweepers that find the same row change it once, and one that was frozen in
the middle of its work keeps no other from doing it, and undoes nothing when it goes on.
"""

from collections.abc import Sequence
from datetime import timedelta

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.service import Service
from headgate.flow.claims import LeasedWork
from headgate.flow.connect import FORGET_MAX
from headgate.flow.recover import free_probes
from headgate.flow.runtime import Runtime
from headgate.ports.signal import CONTROL, SWEEP

#: Look at least this often, in leases; more often when a lease or a cool-down ends sooner.
SWEEP_LEASES = 2 / 3
#: Never look more often than this, however much is due.
SWEEP_S_MIN = 0.1
PRUNE_EVERY_S = 3600.0
PRUNE_MAX = 5000

_log = get_logger(__name__)


class Sweeper(Service):
    """Puts right what workers that are gone, or frozen, have left behind."""

    name = "sweeper"

    def __init__(
        self,
        rt: Runtime,
        leased: Sequence[LeasedWork],
        *,
        lease_s: float,
        keep_events: timedelta,
    ) -> None:
        """Look after `leased` in time for leases of `lease_s`; delete older events than that."""
        super().__init__(rt.clock)
        self._leased = leased
        self._sweep_s_max = lease_s * SWEEP_LEASES
        self._rt = rt
        self._keep_events = keep_events
        self._prune_at = rt.clock.monotonic()
        # A cancel sets a deadline, a recovered provider sets jobs free: both are due soon.
        for topic in (CONTROL, SWEEP):
            rt.signal.subscribe(topic, self)

    async def run_once(self) -> float:
        """One sweep; rests until the next lease, deadline or cool-down ends."""
        await self._rt.store.free_locks()
        await free_probes(self._rt)
        dues_s = [await sweep_due(each) for each in self._leased]
        if not await self._prune():
            return SWEEP_S_MIN
        known_s = [due_s for due_s in dues_s if due_s is not None]
        return min(self._sweep_s_max, *known_s) + SWEEP_S_MIN if known_s else self._sweep_s_max

    async def _prune(self) -> bool:
        """Delete a batch of old events and of items nobody is connected to, if it is time.

        False when there are more.
        """
        if self._rt.clock.monotonic() < self._prune_at:
            return True
        pruned = await self._rt.store.prune_events(older_than=self._keep_events, limit=PRUNE_MAX)
        forgotten = await self._rt.fetching.items.forget_removed(limit=FORGET_MAX)
        if pruned == PRUNE_MAX or forgotten:
            return False
        await self._rt.store.prune_workers()
        self._prune_at = self._rt.clock.monotonic() + PRUNE_EVERY_S
        return True


async def sweep_due(leased: LeasedWork) -> float | None:
    """Put right what is due of one leased type; seconds until there is more, if that is known.

    Nothing is looked for before its time has come.
    """
    leases = leased.claims.leases
    due_s = await leases.next_sweep_s()
    if due_s is None or due_s > 0:
        return due_s
    _log.info(LogEvent.SWEPT, of=leases.kind.machine.name, count=await leased.sweep())
    return await leases.next_sweep_s()
