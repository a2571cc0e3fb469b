"""Redis, as a simulation sees it: ledgers in memory, a clock of its own; it stops, and it forgets.

The limiter in Redis and this one are held to the same answers by the conformance suite, so what is
shown here with virtual days holds there. Each call yields before it takes effect and before it
answers: those are the points where its caller's process may die.
"""

from collections.abc import Mapping

from headgate.base.clock import Clock
from headgate.base.errors import LimiterUnreachable
from headgate.flow.gate import LOOK_AGAIN
from headgate.limits.memory import MemoryLimiter
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Unreachable,
)


class LimiterServer:
    """What all processes of a deployment ask."""

    def __init__(self, clock: Clock) -> None:
        """Count by `clock`, which no host's skew reaches."""
        self.clock = clock
        self.ledgers = MemoryLimiter(clock)
        self.is_up = True

    def restart_empty(self) -> None:
        """Come back without anything that was counted."""
        self.ledgers.forget()
        self.is_up = True


class LimiterClient:
    """One process's way to the server."""

    def __init__(self, server: LimiterServer) -> None:
        """Ask `server`."""
        self._server = server

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request, or refuse it."""
        await self._hop()
        if not self._server.is_up:
            return Unreachable(error="connection refused")
        answer = await self._server.ledgers.acquire(budget, request, grant_id=grant_id)
        await self._hop()
        return answer

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent without asking."""
        await self._reach()
        await self._server.ledgers.charge(budget, request, times=times)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Give the slot back."""
        await self._reach()
        await self._server.ledgers.release(budget, request, grant)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Learn the provider's own counts."""
        await self._reach()
        await self._server.ledgers.observe(budget, request, grant, counts)

    async def close_budget(
        self, budget: Budget, request: BudgetRequest, *, retry_after_s: float | None
    ) -> BudgetClosure:
        """Close the budget."""
        await self._reach()
        return await self._server.ledgers.close_budget(budget, request, retry_after_s=retry_after_s)

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """How the budget stands."""
        await self._reach()
        return await self._server.ledgers.use(budget, connection_id=connection_id)

    async def close(self) -> None:
        """Nothing is held."""

    async def _hop(self) -> None:
        await self._server.clock.sleep(0)

    async def _reach(self) -> None:
        await self._hop()
        if not self._server.is_up:
            raise LimiterUnreachable(LOOK_AGAIN)
