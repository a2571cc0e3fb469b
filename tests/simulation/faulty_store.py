"""A store that fails as real ones do: before a call, after it, or by being slow.

The second is the worst: the write took effect, and the caller does not know.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headgate.base.clock import Clock
from headgate.base.errors import StoreUnavailable
from tests.simulation.audit import ClaimWitness


class StoreFaults:
    """The rates of a store's faults; all processes share them, and the last act has none."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.before = 0.0
        self.after = 0.0
        self.slow = 0.0
        self.slow_s_max = 30.0
        #: The calling process dies during a call.
        self.death = 0.0

    def off(self) -> None:
        """Switch all faults off."""
        self.before = self.after = self.slow = self.death = 0.0

    def strikes(self, share: float) -> bool:
        """Whether a fault with this rate hits the present call."""
        return share > 0 and self._draw.random() < share

    def delay_s(self) -> float:
        """Return how long a slow call takes."""
        return self._draw.uniform(0, self.slow_s_max)


class FaultyStore:
    """Wraps a store: faults around every call, and a check of every settled change."""

    def __init__(
        self, store: Any, faults: StoreFaults, clock: Clock, witness: ClaimWitness
    ) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._with_faults(name, found) if callable(found) else found

    def _with_faults(
        self, name: str, call: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def with_faults(*args: Any, **named: Any) -> Any:
            faults = self._faults
            if faults.strikes(faults.slow):
                await self._clock.sleep(faults.delay_s())
            if faults.strikes(faults.before):
                raise StoreUnavailable(f"{name} did not reach the store")
            result = await call(*args, **named)
            if faults.strikes(faults.after):
                raise StoreUnavailable(f"{name} took effect, but the answer was lost")
            return result

        return with_faults

    def find_fault(self) -> None:
        """The disk itself has no faults here."""

    async def settle(self, change: Any, payload: Any = None) -> Any:
        """Settle a change, and check the result even if the caller does not get it."""

        async def settle(change: Any, payload: Any) -> Any:
            row = await self._store.settle(change, payload)
            self._witness.settled(change, row)
            return row

        return await self._with_faults("settle", settle)(change, payload)

    async def settle_many(self, batch: Sequence[tuple[Any, Any]]) -> Any:
        """Settle many changes in the same way."""

        async def settle_many(batch: Sequence[tuple[Any, Any]]) -> Any:
            rows = await self._store.settle_many(batch)
            for (change, _), row in zip(batch, rows, strict=True):
                self._witness.settled(change, row)
            return rows

        return await self._with_faults("settle_many", settle_many)(batch)
