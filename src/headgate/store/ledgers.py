"""Limiters on ledgers that a database keeps, whichever it is.

The arithmetic is that of `policy/spending.py`; the database reads the ledgers, runs the operations
on them one after another, and writes the ledgers back, so that nobody else does so meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

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
)
from headgate.policy import headroom, spending
from headgate.policy.headroom import Headroom, Shortage


class LedgerOperation(NamedTuple):
    """One operation on a budget's ledgers; its outcome is the result of `spend`."""

    budget: Budget
    connection_id: str
    #: Called with the ledgers by scope, and the time in milliseconds.
    spend: Callable[[Mapping[Scope, Ledger], int], Any]

    def keys(self) -> dict[Scope, str]:
        """The keys of the ledgers that it changes."""
        return {
            scope: self.budget.ledger_key(scope, self.connection_id) for scope in self.budget.scopes
        }

    def run(self, ledgers: Mapping[str, Ledger], now: int) -> Any:
        """Run the operation on the ledgers, which are given by their keys."""
        return self.spend({scope: ledgers[key] for scope, key in self.keys().items()}, now)


class LedgerStore(Protocol):
    """The ledgers of all budgets in a database."""

    async def run(self, operation: LedgerOperation) -> Any:
        """Run the operation in a transaction, perhaps with others; returns its outcome."""
        ...

    async def read(self, keys: Iterable[str]) -> tuple[Mapping[str, Ledger], int]:
        """The ledgers, and the time in milliseconds; a ledger that was never used is empty."""
        ...


class LedgerLimiter:
    """A limiter whose ledgers are in a database: exact across processes, durable."""

    def __init__(self, ledgers: LedgerStore) -> None:
        """Count in these ledgers."""
        self._ledgers = ledgers

    async def close(self) -> None:
        """Do nothing: the application closes the database."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        def take(ledgers: Mapping[Scope, Ledger], now: int) -> Answer:
            return spending.take(budget, ledgers, request, now, grant_id)

        try:
            answer: Answer = await self._run(budget, request.connection_id, take)
        except StoreError as error:
            return Unreachable(error=str(error))
        return answer

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        def charge(ledgers: Mapping[Scope, Ledger], now: int) -> None:
            for _ in range(times):
                spending.charge(budget, ledgers, request, now)

        await self._run(budget, request.connection_id, charge)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        def release(ledgers: Mapping[Scope, Ledger], now: int) -> None:
            spending.release(budget, ledgers, request, grant, now)

        await self._run(budget, request.connection_id, release)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        def observe(ledgers: Mapping[Scope, Ledger], now: int) -> None:
            spending.observe(budget, ledgers, grant.at_ms, now, counts)

        if counts:
            await self._run(budget, request.connection_id, observe)

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        def close(ledgers: Mapping[Scope, Ledger], now: int) -> BudgetClosure:
            until = spending.close_budget(budget, ledgers, request.kind, now, retry_after_s, limit)
            return BudgetClosure.of(until, now)

        closed: BudgetClosure = await self._run(budget, request.connection_id, close)
        return closed

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        ledgers, now = await read_scopes(self._ledgers, budget, connection_id)
        return spending.use(budget, ledgers, now, connection_id=connection_id)

    async def _run(
        self,
        budget: Budget,
        connection_id: str,
        spend: Callable[[Mapping[Scope, Ledger], int], Any],
    ) -> Any:
        return await self._ledgers.run(LedgerOperation(budget, connection_id, spend))


class LedgerMemory:
    """The ledgers that a database keeps for another limiter, which can lose its counts.

    It is a `LimiterMemory` without the fact that the limiter has begun to count.
    """

    def __init__(self, ledgers: LedgerStore) -> None:
        """Keep them among these."""
        self._ledgers = ledgers

    async def extend(
        self, budget: Budget, connection_id: str, lacking: Sequence[Shortage], *, at_ms: int
    ) -> Sequence[Headroom]:
        def extend(ledgers: Mapping[Scope, Ledger], _: int) -> Sequence[Headroom]:
            return headroom.extend(budget, ledgers, lacking, at_ms)

        allowed: Sequence[Headroom] = await self._ledgers.run(
            LedgerOperation(budget, connection_id, extend)
        )
        return allowed

    async def count_429(
        self, budget: Budget, connection_id: str, scope: Scope, *, at_ms: int
    ) -> None:
        def count(ledgers: Mapping[Scope, Ledger], _: int) -> None:
            spending.hour_of(ledgers[scope], at_ms).by_provider += 1

        await self._ledgers.run(LedgerOperation(budget, connection_id, count))

    async def ledgers(self, budget: Budget, connection_id: str | None) -> Mapping[Scope, Ledger]:
        found, _ = await read_scopes(self._ledgers, budget, connection_id)
        return found


async def read_scopes(
    ledgers: LedgerStore, budget: Budget, connection_id: str | None
) -> tuple[dict[Scope, Ledger], int]:
    """The ledgers of a budget by scope, and the time; without a connection, the application's."""
    keys = {
        scope: budget.ledger_key(scope, connection_id or "")
        for scope in budget.scopes
        if scope is Scope.APP or connection_id is not None
    }
    found, now = await ledgers.read(keys.values())
    return {scope: found[key] for scope, key in keys.items()}, now
