"""The simulated Redis limiter: ledgers in memory, with a clock of its own; it may stop and forget.

The conformance suite checks that this limiter and the one in Redis behave alike, so what holds here
in virtual days holds there. Each call yields before it takes effect and before it returns: at these
points the caller's process may die.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from headgate.base.clock import Clock
from headgate.base.errors import LimiterUnreachable
from headgate.flow.budget.gate import LOOK_AGAIN
from headgate.limits.memory import MemoryLimiter, SharedLedgers
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Unreachable,
    to_ms,
)
from headgate.ports.limiter import Limiter, LimiterMemory

#: The share of late answers, and how long they take at most: longer than a slot's lease.
LATE_SHARE, LATE_S_MAX = 0.2, 120.0


class LimiterServer:
    """The limiter that all processes of a deployment share."""

    def __init__(self, clock: Clock) -> None:
        """Count by `clock`, which has no host's skew."""
        self.clock = clock
        self.shelf = SharedLedgers()
        self.is_up = True

    def restart_empty(self) -> None:
        """Come back with all counts lost."""
        self.shelf.forget(to_ms(self.clock.now()))
        self.is_up = True


class LimiterClient:
    """One process's client of the server."""

    def __init__(self, server: LimiterServer, memory: LimiterMemory) -> None:
        """Call `server`; `memory` is in the process's database."""
        self._server = server
        self._limiter = MemoryLimiter(server.clock, shelf=server.shelf, memory=memory)

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request, or refuse it."""
        await self._hop()
        if not self._server.is_up:
            return Unreachable(error="connection refused")
        answer = await self._limiter.acquire(budget, request, grant_id=grant_id)
        await self._hop()
        return answer

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent without asking."""
        await self._reach()
        await self._limiter.charge(budget, request, times=times)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Release the slot."""
        await self._reach()
        await self._limiter.release(budget, request, grant)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Learn the provider's own counts."""
        await self._reach()
        await self._limiter.observe(budget, request, grant, counts)

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        """Close the budget."""
        await self._reach()
        return await self._limiter.close_budget(
            budget, request, retry_after_s=retry_after_s, limit=limit
        )

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """Return the use of the budget."""
        await self._reach()
        return await self._limiter.use(budget, connection_id=connection_id)

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""

    async def _hop(self) -> None:
        await self._server.clock.sleep(0)

    async def _reach(self) -> None:
        await self._hop()
        if not self._server.is_up:
            raise LimiterUnreachable(LOOK_AGAIN)


class LateLimiter:
    """A limiter whose answers are on their way for a while now and then, like a stalled process."""

    def __init__(self, limiter: Limiter, clock: Clock, draw: Random) -> None:
        """Ask `limiter`; draw which answers are late, and how much."""
        self._limiter = limiter
        self._clock = clock
        self._draw = draw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._limiter, name)

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Return the limiter's answer, perhaps late."""
        answer = await self._limiter.acquire(budget, request, grant_id=grant_id)
        if self._draw.random() < LATE_SHARE:
            await self._clock.sleep(self._draw.uniform(0, LATE_S_MAX))
        return answer
