"""Liveness: which worker processes have died, told apart from those that are only slow.

A worker holds a lock that ends with its process. Whoever finds the lock free knows that the process
has died, and need not wait for its leases. A process that is only frozen keeps the lock, and so its
claims until their leases expire. A wrong verdict costs work that is done again and nothing else:
every write is fenced.
"""

from collections.abc import Collection, Sequence
from typing import Protocol


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
