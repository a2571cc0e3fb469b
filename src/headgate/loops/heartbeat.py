"""The heartbeat: it extends the leases of this process and refreshes its worker row."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.claims import BEATS_PER_LEASE, ActiveClaims
from headgate.model.worker import Abilities
from headgate.ports.store import WorkerStore

#: A worker refreshes its row once per lease, and counts as gone after so many leases without that.
PRESENCE_LEASES = 2.5


class Presence:
    """The row of this worker process, which says that it is alive and what it can run."""

    def __init__(
        self, workers: WorkerStore, worker: str, abilities: Abilities, *, lease_s: float
    ) -> None:
        """Describe the worker called `worker`."""
        self._workers = workers
        self._worker = worker
        self._abilities = abilities
        self._term = timedelta(seconds=PRESENCE_LEASES * lease_s)
        self._beats = 0

    async def beat(self) -> None:
        """Write the row at the first beat, and then once per lease."""
        if self._beats % BEATS_PER_LEASE == 0:
            await self._workers.refresh_worker(self._worker, self._abilities, term=self._term)
        self._beats += 1

    async def end(self) -> None:
        """Delete the row when the process stops, if it was ever written."""
        if self._beats:
            self._beats = 0
            await self._workers.remove_worker(self._worker)


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
