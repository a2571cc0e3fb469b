"""A store that fails as real ones do: before the call, after it, or slowly.

The worst of the three is the second: the write took effect, and nobody was told.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from headgate.base.clock import Clock
from headgate.base.errors import StoreUnavailable
from headgate.model.change import Change
from headgate.ports.store import Work


class StoreFaults:
    """How often what goes wrong; shared by all processes, and switched off for the last act."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.before = 0.0
        self.after = 0.0
        self.slow = 0.0
        self.slow_s_max = 30.0
        #: The calling process dies at the very moment of a call.
        self.death = 0.0

    def off(self) -> None:
        """From now on the store does what it is told."""
        self.before = self.after = self.slow = self.death = 0.0

    def strikes(self, share: float) -> bool:
        """Whether this fault strikes this call."""
        return share > 0 and self._draw.random() < share

    def delay_s(self) -> float:
        """How long a slow call takes."""
        return self._draw.uniform(0, self.slow_s_max)


class FaultyStore:
    """Any store, with faults around every call."""

    def __init__(self, store: Any, faults: StoreFaults, clock: Clock) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._store, name)

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

    async def settle(self, change: Change, work: Work | None = None) -> Any:
        """Settle, with the claim's token in the event: the audit compares it with the row's."""
        # A change that fences raises the token by itself, before its event is written.
        token = change.token + change.fences
        signed = replace(change, data={**change.data, "token": token})
        return await self.__getattr__("settle")(signed, work)
