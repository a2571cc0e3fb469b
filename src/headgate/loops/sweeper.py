"""The sweeper: it rescues, thaws and prunes rows, and frees the locks of frozen workers.

It also tells people of jobs that stay paused for long, where the application notifies them, and
goes on with erasures of users that were interrupted.

Every process runs one, without a leader. A rescue, a thaw and an operator's pause are all fenced by
the row's token, which each of them raises. So two sweepers that find the same row change it once,
and a sweeper that was frozen in the middle of its work neither blocks another nor undoes anything.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.service import Service
from headgate.flow.connections.service import FORGET_MAX
from headgate.flow.leases.claims import LeasedWork
from headgate.flow.leases.recover import free_probes
from headgate.flow.runtime import Runtime
from headgate.flow.users.erasure import UserData
from headgate.ports.signal import CONTROL, OUTBOX, SWEEP

#: The longest time between two sweeps, in leases; shorter if a lease or a cool-down ends sooner.
SWEEP_LEASES = 2 / 3
#: What is due later is taken for a job that waits and not for a claim, whose lease ends sooner.
CLAIMED_S_MAX = 300.0
#: The shortest time between two sweeps, however much is due.
SWEEP_S_MIN = 0.1
PRUNE_EVERY_S = 3600.0
PRUNE_MAX = 5000
#: How often all old jobs are looked at, some of which stay, and how many at once.
PRUNE_JOBS_EVERY_S = 24 * 3600.0
PRUNE_JOBS_MAX = 250
PURGE_MAX = 500
#: How often interrupted erasures and long pauses are looked for: a pause of a day is told within
#: minutes. And how many pauses at once.
LOOK_EVERY_S = 300.0
PAUSES_MAX = 100

_log = get_logger(__name__)


class Sweeper(Service):
    """Repairs what lost or frozen workers have left behind."""

    name = "sweeper"

    def __init__(
        self,
        rt: Runtime,
        leased: Sequence[LeasedWork],
        *,
        lease_s: float,
        keep_jobs: timedelta | None,
        keep_events: timedelta,
        keep_sent: timedelta,
        keep_ticks: timedelta,
    ) -> None:
        """Sweep `leased`, whose leases last `lease_s`.

        Jobs that ended longer ago than `keep_jobs` are deleted, events older than `keep_events`,
        ticks older than `keep_ticks`, and messages that all targets accepted so long ago as
        `keep_sent`.
        """
        super().__init__(rt.clock)
        self._leased = leased
        self._claimed_s_max = max(lease_s, CLAIMED_S_MAX)
        self._sweep_s_max = lease_s * SWEEP_LEASES
        self._rt = rt
        self._user_data = None if rt.erasures is None else UserData(rt)
        self._keep_jobs = keep_jobs
        self._jobs_after: str | None = None
        self._keep_events = keep_events
        self._keep_sent = keep_sent
        self._keep_ticks = keep_ticks
        self._prune_at = self._prune_jobs_at = rt.clock.monotonic()
        self._pauses_at = self._erasures_at = rt.clock.monotonic()
        #: Called at each sweep that finds something that may be claimed.
        self.on_claims: Callable[[], None] = lambda: None
        # A cancel sets a deadline and a recovered provider resumes jobs: both are due soon.
        for topic in (CONTROL, SWEEP):
            rt.signal.subscribe(topic, self)

    async def run_once(self) -> float:
        """Sweep once, then rest until the next lease, deadline or cool-down ends."""
        await self._rt.store.free_locks()
        await free_probes(self._rt)
        dues_s = [await sweep_due(each) for each in self._leased]
        known_s = [due_s for due_s in dues_s if due_s is not None]
        # Not by a lease of ours: other processes may have longer ones. A job may wait for days.
        if any(due_s <= self._claimed_s_max for due_s in known_s):
            self.on_claims()
        told, erased = await self._tell_paused(), await self._go_on_erasing()
        pruned = await self._prune() and await self._prune_jobs()
        if not pruned or not told or not erased:
            return SWEEP_S_MIN
        if not known_s:
            return self._sweep_s_max
        return min(self._sweep_s_max, *known_s) + SWEEP_S_MIN

    async def _prune(self) -> bool:
        """Delete a batch of old events, ticks, sent messages and orphaned items, if due.

        Returns False if there are more.
        """
        if self._rt.clock.monotonic() < self._prune_at:
            return True
        pruned = await self._rt.store.prune_events(older_than=self._keep_events, limit=PRUNE_MAX)
        forgotten = await self._forget_removed()
        purged = await self._purge_sent() + await self._prune_ticks()
        if pruned == PRUNE_MAX or forgotten or purged:
            return False
        await self._rt.store.prune_workers()
        self._prune_at = self._rt.clock.monotonic() + PRUNE_EVERY_S
        return True

    async def _prune_jobs(self) -> bool:
        """Delete a batch of old jobs, if it is time to look; False if there are more to look at."""
        if self._keep_jobs is None or self._rt.clock.monotonic() < self._prune_jobs_at:
            return True
        pruned = await self._rt.store.prune_jobs(
            older_than=self._keep_jobs, limit=PRUNE_JOBS_MAX, after=self._jobs_after
        )
        self._jobs_after = pruned.after
        if pruned.after is not None:
            return False
        self._prune_jobs_at = self._rt.clock.monotonic() + PRUNE_JOBS_EVERY_S
        return True

    async def _tell_paused(self) -> bool:
        """Tell people of a batch of jobs that are paused for long, if it is time to look.

        Returns False if there are more.
        """
        if not self._rt.notifies or self._rt.clock.monotonic() < self._pauses_at:
            return True
        found = await self._rt.store.tell_paused(limit=PAUSES_MAX)
        if found:
            await self._rt.signal.announce(OUTBOX)
        if found == PAUSES_MAX:
            return False
        self._pauses_at = self._rt.clock.monotonic() + LOOK_EVERY_S
        return True

    async def _go_on_erasing(self) -> bool:
        """Do a batch of an interrupted erasure, if it is time to look; False if there are more."""
        if self._user_data is None or self._rt.clock.monotonic() < self._erasures_at:
            return True
        if await self._user_data.go_on():
            return False
        self._erasures_at = self._rt.clock.monotonic() + LOOK_EVERY_S
        return True

    async def _forget_removed(self) -> int:
        if self._rt.items is None:
            return 0
        return await self._rt.items.forget_removed(limit=FORGET_MAX)

    async def _purge_sent(self) -> int:
        if self._rt.drainer is None:
            return 0
        store = self._rt.drainer.store
        return await store.purge_sent(older_than=self._keep_sent, limit=PURGE_MAX)

    async def _prune_ticks(self) -> int:
        if self._rt.schedules is None:
            return 0
        return await self._rt.schedules.prune_ticks(older_than=self._keep_ticks, limit=PRUNE_MAX)


async def sweep_due(leased: LeasedWork) -> float | None:
    """Sweep one leased type if something is due; returns the seconds until the next, if known."""
    leases = leased.claims.leases
    due_s = await leases.next_sweep_s()
    if due_s is None or due_s > 0:
        return due_s
    _log.info(LogEvent.SWEPT, of=leases.kind.machine.name, count=await leased.sweep())
    return await leases.next_sweep_s()
