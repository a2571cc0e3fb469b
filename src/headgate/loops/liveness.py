"""The liveness watch: it looks for workers that have died, and lets their leases expire at once.

The rescuer then takes their rows as it does when leases have run out by themselves, fenced by the
token. A worker without a lock, and one that is only frozen, keeps its claims until its leases end.

It looks often while there may be work in other processes: a hint of work, a job that has come due,
or a claim that a sweep has seen. An idle process does not look.
"""

from collections.abc import Sequence

from headgate.base.log_events import LogEvent
from headgate.base.service import Service
from headgate.flow.leases.claims import LeasedWork
from headgate.flow.runtime import Runtime
from headgate.model.job import Lane
from headgate.ports.signal import CONTROL, OUTBOX, SWEEP, lane_topic

#: How often it looks while there may be work.
LOOK_EVERY_S = 2.5
#: With a long lease it looks less often: somebody who can wait that long, or whose clock runs fast.
LOOKS_PER_LEASE_MAX = 360
#: How long it looks after its start: a worker that has died is found dead by several looks.
START_S = 10.0
START_LOOKS = 4


class LivenessWatch(Service):
    """Looks for workers that have died."""

    name = "liveness"

    def __init__(
        self, rt: Runtime, leased: Sequence[LeasedWork], *, worker: str, lease_s: float
    ) -> None:
        """Watch the other workers, as the one called `worker`, for their claims of `leased`."""
        super().__init__(rt.clock)
        self._rt = rt
        self._leased = leased
        self._worker = worker
        # After a lease there was a sweep, which found whatever was still claimed.
        self._busy_s = lease_s
        self._look_every_s = max(LOOK_EVERY_S, lease_s / LOOKS_PER_LEASE_MAX)
        # At its start it looks for the one in whose place it was started.
        self._busy_until_s = rt.clock.monotonic() + max(START_S, START_LOOKS * self._look_every_s)
        self._looks = True
        for topic in (CONTROL, OUTBOX, SWEEP, *map(lane_topic, Lane)):
            rt.signal.subscribe(topic, self)

    def nudge(self) -> None:
        """Note that there may be work; a rest between two looks is not cut short by that."""
        self._busy_until_s = self._clock.monotonic() + self._busy_s
        if self._stopping or not self._looks:
            super().nudge()

    async def run_once(self) -> float | None:
        """Look once, then rest until the next look, or until there may be work again."""
        self._looks = True
        try:
            await self._look()
        except Exception:
            # The rest after failures becomes long: a hint ends it, as when a connection is back.
            self._looks = False
            raise
        self._looks = self._clock.monotonic() < self._busy_until_s
        return self._look_every_s if self._looks else None

    async def _look(self) -> None:
        others = [
            each.id
            for each in await self._rt.workers.live_workers()
            if each.id != self._worker and each.abilities.holds_lock
        ]
        for worker in await self._rt.signal.liveness.find_dead(others):
            await self._expire_claims(worker)

    async def _expire_claims(self, worker: str) -> None:
        expired = [await each.claims.leases.expire(worker) for each in self._leased]
        # Last: whoever dies before this has left the row to the next who looks.
        await self._rt.workers.remove_worker(worker)
        self._log.warning(LogEvent.WORKER_DIED, worker=worker, claims=sum(expired))
        await self._rt.signal.announce(SWEEP)
