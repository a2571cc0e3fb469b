"""The heartbeat: it keeps what this process has claimed, and tells that the process lives."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.claims import BEATS_PER_LEASE, ActiveClaims
from headgate.model.worker import Abilities
from headgate.ports.store import WorkerStore

#: A worker tells of itself once in a lease, and counts as gone after so many without a word.
PRESENCE_LEASES = 2.5


class Presence:
    """Tells that this worker process lives, and what it can run."""

    def __init__(
        self, workers: WorkerStore, worker: str, abilities: Abilities, *, lease_s: float
    ) -> None:
        """Tell it of `worker`."""
        self._workers = workers
        self._worker = worker
        self._abilities = abilities
        self._term = timedelta(seconds=PRESENCE_LEASES * lease_s)
        self._beats = 0

    async def beat(self) -> None:
        """Write it with the first beat, and then once in a lease."""
        if self._beats % BEATS_PER_LEASE == 0:
            await self._workers.refresh_worker(self._worker, self._abilities, term=self._term)
        self._beats += 1

    async def end(self) -> None:
        """The process stops; nothing to take back where it has never told of itself."""
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
        """Keep `claims`, whose leases last `lease_s`."""
        super().__init__(clock)
        self._presence = presence
        self._claims = claims
        self._lease_s = lease_s

    async def run_once(self) -> float:
        """One beat. What was claimed since the last has a fresh lease, which lasts to the next."""
        for each in self._claims:
            await each.extend()
        if self._presence is not None:
            await self._presence.beat()
        return self._lease_s / BEATS_PER_LEASE
