"""The limiter in one process's memory, for its local share while the real one is unreachable.

With a `LimiterMemory` it is the twin of the limiter in Redis: it may lose all counts, and the
database knows the most that can have been granted. The simulation uses it so.
"""

from collections.abc import Mapping
from copy import deepcopy
from itertools import count

from headgate.base.clock import Clock
from headgate.base.errors import StoreError
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Granted,
    Ledger,
    Scope,
    Unreachable,
    to_ms,
)
from headgate.policy import headroom, spending
from headgate.ports.limiter import LimiterMemory


class SharedLedgers:
    """Ledgers in memory, which several limiters may share; it may lose all of them."""

    def __init__(self) -> None:
        """Begin without ledgers."""
        self.ledgers: dict[str, Ledger] = {}
        self._born = 0
        self._ids = count(1)

    def forget(self, now: int) -> None:
        """Lose all counts, like a server that restarts empty."""
        self.ledgers.clear()
        self._born = now

    def find(self, key: str) -> Ledger:
        """The ledger; one that is not there is begun."""
        if key not in self.ledgers:
            self.ledgers[key] = Ledger(id=f"ledger_{next(self._ids)}", born=self._born)
        return self.ledgers[key]


class MemoryLimiter:
    """Budgets that no other process sees and that a restart loses."""

    def __init__(
        self,
        clock: Clock,
        *,
        shelf: SharedLedgers | None = None,
        memory: LimiterMemory | None = None,
    ) -> None:
        """Count by `clock`, in a shelf of its own or a shared one; `memory` survives its loss."""
        self._clock = clock
        self._shelf = shelf or SharedLedgers()
        self._memory = memory

    def forget(self) -> None:
        """Lose all counts, like a server that restarts empty."""
        self._shelf.forget(self._now)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        while True:
            ledgers, now = self._of(budget, request.connection_id), self._now
            refusal = spending.refuse(budget, ledgers, request, now)
            if refusal is not None:
                return refusal
            try:
                if not await self._raise_headroom(budget, request, times=1):
                    return spending.grant(budget, ledgers, request, now, grant_id)
            except StoreError as error:
                return Unreachable(error=str(error))

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        while await self._raise_headroom(budget, request, times=times):
            pass
        for _ in range(times):
            spending.charge(budget, self._of(budget, request.connection_id), request, self._now)

    async def _raise_headroom(self, budget: Budget, request: BudgetRequest, *, times: int) -> bool:
        """Let the database allow more; False if that was not needed, and nothing was awaited."""
        if self._memory is None:
            return False
        of, now = request.connection_id, self._now
        lacking = headroom.shortages(budget, self._of(budget, of), request, now, times=times)
        if not lacking:
            return False
        given = await self._memory.extend(budget, of, lacking, at_ms=now)
        # They may have been lost meanwhile.
        headroom.apply(self._of(budget, of), given)
        return True

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        ledgers = self._of(budget, request.connection_id)
        spending.release(budget, ledgers, request, grant, self._now)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
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
        ledgers = self._of(budget, request.connection_id)
        now = self._now
        return BudgetClosure.of(
            spending.close_budget(budget, ledgers, request.kind, now, retry_after_s, limit), now
        )

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        ledgers = self._of(budget, connection_id or "")
        if connection_id is None:
            ledgers.pop(Scope.CONNECTION, None)
        if self._memory is not None:
            kept = await self._memory.ledgers(budget, connection_id)
            ledgers = deepcopy(ledgers)
            for scope, ledger in ledgers.items():
                headroom.recall(ledger, kept[scope])
        return spending.use(budget, ledgers, self._now, connection_id=connection_id)

    @property
    def _now(self) -> int:
        return to_ms(self._clock.now())

    def _of(self, budget: Budget, connection_id: str) -> dict[Scope, Ledger]:
        return {
            scope: self._shelf.find(budget.ledger_key(scope, connection_id))
            for scope in budget.scopes
        }
