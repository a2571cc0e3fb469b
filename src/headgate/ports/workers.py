"""Worker processes: which are there, and which of them have died.

A worker holds a lock that ends with its process. Whoever finds the lock free knows that the process
has died, and need not wait for its leases. A process that is only frozen keeps the lock, and so its
claims until their leases expire. A wrong verdict costs work that is done again and nothing else:
every write is fenced.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Protocol

from headgate.model.worker import Abilities, Worker


class WorkerStore(Protocol):
    """Worker processes."""

    async def refresh_worker(
        self, worker_id: str, abilities: Abilities, *, term: timedelta
    ) -> None:
        """Store that the worker is alive and what it can run; after `term` it counts as gone."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """Delete the row of a worker that has stopped."""
        ...

    async def live_workers(self) -> Sequence[Worker]:
        """The workers that count as alive."""
        ...

    async def prune_workers(self) -> int:
        """Delete the rows of workers that are gone; returns how many."""
        ...


class Liveness(Protocol):
    """The locks of worker processes around one database."""

    @property
    def held(self) -> bool:
        """Whether this process holds a lock by which others can tell that it lives."""
        ...

    async def hold(self, worker: str) -> None:
        """Hold the lock of this worker from now on, where that is possible. Never raises."""
        ...

    async def release(self) -> None:
        """Free the lock; safe if it was never held. Never raises."""
        ...

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        """Those of these workers, each of which has held its lock, whose process has died."""
        ...
