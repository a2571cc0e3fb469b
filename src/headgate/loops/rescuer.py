"""The rescuer: it frees what lost or frozen workers hold, and lets thawed jobs go on.

Every process runs one, without a leader. A rescue, a thaw and an operator's pause are all fenced by
the row's token, which each of them raises. So two rescuers that find the same row change it once,
and one that was frozen in the middle of its work neither blocks another nor undoes anything.
"""

from collections.abc import Callable, Sequence

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.leases.claims import LeasedWork
from headgate.flow.leases.recover import free_probes
from headgate.flow.runtime import Runtime
from headgate.ports.signal import CONTROL, SWEEP

#: The longest time between two sweeps, in leases; shorter if a lease or a cool-down ends sooner.
SWEEP_LEASES = 2 / 3
#: What is due later is taken for a job that waits and not for a claim, whose lease ends sooner.
CLAIMED_S_MAX = 300.0

_log = get_logger(__name__)


class Rescuer(Service):
    """Sweeps locks, probes and leases: those of workers that are gone or frozen."""

    name = "rescuer"

    def __init__(self, rt: Runtime, leased: Sequence[LeasedWork], *, lease_s: float) -> None:
        """Sweep `leased`, whose leases last `lease_s`."""
        super().__init__(rt.clock)
        self._rt = rt
        self._leased = leased
        self._claimed_s_max = max(lease_s, CLAIMED_S_MAX)
        self._sweep_s_max = lease_s * SWEEP_LEASES
        #: Called at each sweep that finds something that may be claimed.
        self.on_claims: Callable[[], None] = lambda: None
        # A cancel sets a deadline and a recovered provider resumes jobs: both are due soon.
        for topic in (CONTROL, SWEEP):
            rt.signal.subscribe(topic, self)

    async def run_once(self) -> float:
        """Sweep once, then rest until the next lease, deadline or cool-down ends."""
        await self._rt.database.free_locks()
        await free_probes(self._rt)
        dues_s = [await sweep_due(each) for each in self._leased]
        known_s = [due_s for due_s in dues_s if due_s is not None]
        # Not by a lease of ours: other processes may have longer ones. A job may wait for days.
        if any(due_s <= self._claimed_s_max for due_s in known_s):
            self.on_claims()
        if not known_s:
            return self._sweep_s_max
        return min(self._sweep_s_max, *known_s) + BATCH_REST_S


async def sweep_due(leased: LeasedWork) -> float | None:
    """Sweep one leased type if something is due; returns the seconds until the next, if known."""
    leases = leased.claims.leases
    due_s = await leases.next_sweep_s()
    if due_s is None or due_s > 0:
        return due_s
    _log.info(LogEvent.SWEPT, of=leases.kind.machine.name, count=await leased.sweep())
    return await leases.next_sweep_s()
