"""The limiter in the store's own database: exact across processes, durable, without a server.

Concurrent requests share one transaction.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.base.coalesce import Coalescer
from headgate.model.budget import Ledger
from headgate.store.ledgers import LedgerLimiter, LedgerMemory, LedgerOperation
from headgate.store.sql.budgets import ledgers as budgets
from headgate.store.sql.engine.database import Database


class SqlLedgers:
    """The ledgers of budgets in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self._database = database
        self._spending = Coalescer[LedgerOperation, Any](self._spend_batch)

    async def run(self, operation: LedgerOperation) -> Any:
        """Run the operation in one transaction with others that are run at the same time."""
        return await self._spending.submit(operation)

    async def read(self, keys: Iterable[str]) -> tuple[Mapping[str, Ledger], int]:
        """The ledgers, and the time in milliseconds."""
        moment = self._database.moment()
        return await self._database.read(lambda tx: budgets.read(tx, moment, keys))

    async def _spend_batch(self, batch: list[LedgerOperation]) -> list[Any]:
        return await self._database.write(
            lambda tx: budgets.spend(tx, self._database.moment(), batch)
        )


class SqlLimiter(LedgerLimiter):
    """Budgets in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        super().__init__(SqlLedgers(database))
        self._database = database


class SqlLimiterMemory(LedgerMemory):
    """What the database keeps for another limiter, such as Redis, which can lose its counts."""

    def __init__(self, database: Database, limiter: str) -> None:
        """Keep it for the limiter of that name."""
        super().__init__(SqlLedgers(database))
        self._database = database
        self._limiter = limiter

    async def has_begun(self) -> bool:
        return await self._database.read(lambda tx: budgets.has_begun(tx, self._limiter))

    async def note_begun(self) -> None:
        await self._database.write(
            lambda tx: budgets.note_begun(tx, self._database.moment(), self._limiter)
        )
