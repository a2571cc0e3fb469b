"""The limiter in one process's memory, for its local share while the real one is unreachable."""

from collections.abc import Mapping

from headgate.base.clock import Clock
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Ledger,
    Scope,
    to_ms,
)
from headgate.policy import spending


class MemoryLimiter:
    """Budgets that no other process sees and that a restart loses."""

    def __init__(self, clock: Clock) -> None:
        """Count by `clock`."""
        self._clock = clock
        self._ledgers: dict[str, Ledger] = {}
        self._born = 0

    def forget(self) -> None:
        """Lose all counts, like a server that restarts empty: the use of windows is unknown."""
        self._ledgers.clear()
        self._born = self._now

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request, or refuse it."""
        return spending.take(
            budget, self._of(budget, request.connection_id), request, self._now, grant_id
        )

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent without a grant."""
        for _ in range(times):
            spending.charge(budget, self._of(budget, request.connection_id), request, self._now)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Release the slot."""
        spending.release(budget, self._of(budget, request.connection_id), grant.id)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Take over the provider's own counts."""
        ledgers = self._of(budget, request.connection_id)
        spending.observe(budget, ledgers, grant.at_ms, self._now, counts)

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        """Close the budget."""
        ledgers = self._of(budget, request.connection_id)
        now = self._now
        return BudgetClosure.of(
            spending.close_budget(budget, ledgers, request.kind, now, retry_after_s, limit), now
        )

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """The use of the budget."""
        ledgers = self._of(budget, connection_id or "")
        if connection_id is None:
            ledgers.pop(Scope.CONNECTION, None)
        return spending.use(budget, ledgers, self._now, connection_id=connection_id)

    @property
    def _now(self) -> int:
        return to_ms(self._clock.now())

    def _of(self, budget: Budget, connection_id: str) -> dict[Scope, Ledger]:
        return {
            scope: self._ledgers.setdefault(
                budget.ledger_key(scope, connection_id), Ledger(born=self._born)
            )
            for scope in budget.scopes
        }
