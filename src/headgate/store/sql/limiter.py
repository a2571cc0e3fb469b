"""The limiter in the store's own database: exact across processes, durable, without a server.

Concurrent requests share one transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from headgate.base.coalesce import Coalescer
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
from headgate.store.sql import budgets
from headgate.store.sql.budgets import LedgerOperation
from headgate.store.sql.database import Database

T = TypeVar("T")


class SqlLimiter:
    """Budgets in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self._database = database
        self._spending = Coalescer[LedgerOperation, Any](self._spend_batch)

    async def close(self) -> None:
        """Do nothing: the application closes the database."""

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        """Count the request, or refuse it."""
        try:
            return await self._spend(
                budget,
                request.connection_id,
                lambda ledgers, now: spending.take(budget, ledgers, request, now, grant_id),
            )
        except StoreError as error:
            return Unreachable(error=str(error))

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        """Count requests that were sent without a grant."""

        def charge(ledgers: Mapping[Scope, Ledger], now: int) -> None:
            for _ in range(times):
                spending.charge(budget, ledgers, request, now)

        await self._spend(budget, request.connection_id, charge)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        """Release the slot."""
        await self._spend(
            budget,
            request.connection_id,
            lambda ledgers, now: spending.release(budget, ledgers, request, grant, now),
        )

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        """Take over the provider's own counts."""
        if counts:
            await self._spend(
                budget,
                request.connection_id,
                lambda ledgers, now: spending.observe(budget, ledgers, grant.at_ms, now, counts),
            )

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        """Close the budget."""

        def close(ledgers: Mapping[Scope, Ledger], now: int) -> BudgetClosure:
            until = spending.close_budget(budget, ledgers, request.kind, now, retry_after_s, limit)
            return BudgetClosure.of(until, now)

        closed: BudgetClosure = await self._spend(budget, request.connection_id, close)
        return closed

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        """The use of the budget."""
        ledgers, now = await _read(self._database, budget, connection_id)
        return spending.use(budget, ledgers, now, connection_id=connection_id)

    async def _spend(
        self,
        budget: Budget,
        connection_id: str,
        spend: Callable[[Mapping[Scope, Ledger], int], T],
    ) -> T:
        outcome: T = await self._spending.submit(LedgerOperation(budget, connection_id, spend))
        return outcome

    async def _spend_batch(self, batch: list[LedgerOperation]) -> list[Any]:
        return await self._database.write(
            lambda tx: budgets.spend(tx, self._database.moment(), batch)
        )


class SqlLimiterMemory:
    """What the database keeps for another limiter, such as Redis, which can lose its counts."""

    def __init__(self, database: Database, limiter: str) -> None:
        """Keep it for the limiter of that name."""
        self._database = database
        self._limiter = limiter
        self._writing = Coalescer[LedgerOperation, Any](self._write_batch)

    async def has_begun(self) -> bool:
        """Whether the limiter has ever counted requests."""
        return await self._database.read(lambda tx: budgets.has_begun(tx, self._limiter))

    async def note_begun(self) -> None:
        """Store that the limiter counts requests from now on."""
        await self._database.write(
            lambda tx: budgets.note_begun(tx, self._database.moment(), self._limiter)
        )

    async def extend(
        self, budget: Budget, connection_id: str, lacking: Sequence[Shortage], *, at_ms: int
    ) -> Sequence[Headroom]:
        """Store that more requests may be granted."""
        allowed: Sequence[Headroom] = await self._writing.submit(
            LedgerOperation(
                budget,
                connection_id,
                lambda ledgers, _: headroom.extend(budget, ledgers, lacking, at_ms),
            )
        )
        return allowed

    async def count_429(
        self, budget: Budget, connection_id: str, scope: Scope, *, at_ms: int
    ) -> None:
        """Count an answer with 429."""

        def count(ledgers: Mapping[Scope, Ledger], _: int) -> None:
            spending.hour_of(ledgers[scope], at_ms).by_provider += 1

        await self._writing.submit(LedgerOperation(budget, connection_id, count))

    async def ledgers(self, budget: Budget, connection_id: str | None) -> Mapping[Scope, Ledger]:
        """The database's own ledgers of the budget."""
        found, _ = await _read(self._database, budget, connection_id)
        return found

    async def _write_batch(self, batch: list[LedgerOperation]) -> list[Any]:
        return await self._database.write(
            lambda tx: budgets.spend(tx, self._database.moment(), batch)
        )


async def _read(
    database: Database, budget: Budget, connection_id: str | None
) -> tuple[dict[Scope, Ledger], int]:
    keys = {
        scope: budget.ledger_key(scope, connection_id or "")
        for scope in budget.scopes
        if scope is Scope.APP or connection_id is not None
    }
    found, now = await database.read(lambda tx: budgets.read(tx, database.moment(), keys.values()))
    return {scope: found[key] for scope, key in keys.items()}, now
