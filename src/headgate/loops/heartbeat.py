"""The heartbeat: it extends the leases of this process, and shows others that it lives."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.leases.claims import BEATS_PER_LEASE, ActiveClaims
from headgate.model.worker import Abilities
from headgate.ports.workers import Liveness, WorkerStore

#: A worker refreshes its row once per lease, and counts as gone after so many leases without that.
PRESENCE_LEASES = 2.5


class Presence:
    """The row of this worker process, which says that it is alive and what it can run."""

    def __init__(
        self,
        workers: WorkerStore,
        liveness: Liveness,
        worker: str,
        abilities: Abilities,
        *,
        lease_s: float,
    ) -> None:
        """Describe the worker called `worker`, whose lock `liveness` holds."""
        self._workers = workers
        self._liveness = liveness
        self._worker = worker
        self._abilities = abilities
        self._term = timedelta(seconds=PRESENCE_LEASES * lease_s)
        self._beats = 0

    async def beat(self) -> None:
        """Hold the lock and write the row at the first beat, and the row again once per lease."""
        if self._beats == 0:
            await self._liveness.hold(self._worker)
        if self._beats % BEATS_PER_LEASE == 0:
            abilities = replace(self._abilities, holds_lock=self._liveness.held)
            await self._workers.refresh_worker(self._worker, abilities, term=self._term)
        self._beats += 1

    async def end(self) -> None:
        """Delete the row when the process stops, if it was ever written, and free the lock."""
        try:
            if self._beats:
                self._beats = 0
                await self._workers.remove_worker(self._worker)
        finally:
            await self._liveness.release()


class Heartbeat(Service):
    """Extends the leases of everything claimed, in one write for each leased type."""

    name = "heartbeat"

    def __init__(
        self,
        claims: Sequence[ActiveClaims[Any]],
        clock: Clock,
        *,
        lease_s: float,
        presence: Presence | None = None,
    ) -> None:
        """Extend `claims`, whose leases last `lease_s`."""
        super().__init__(clock)
        self._presence = presence
        self._claims = claims
        self._lease_s = lease_s

    async def run_once(self) -> float:
        """Beat once. A row claimed since the last beat has a lease that lasts until the next."""
        for each in self._claims:
            await each.extend()
        if self._presence is not None:
            await self._presence.beat()
        return self._lease_s / BEATS_PER_LEASE
