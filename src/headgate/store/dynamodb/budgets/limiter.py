"""The limiter in the store's own table, beside the stores, as the one in SQL is.

A request takes one conditional write of the ledger, or of the two ledgers that it counts in.
"""

from headgate.store.dynamodb.budgets.ledgers import DynamoLedgers
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Key
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import time_text
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Put
from headgate.store.ledgers import LedgerLimiter, LedgerMemory


class DynamoLimiter(LedgerLimiter):
    """Budgets in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        super().__init__(DynamoLedgers(table))


class DynamoLimiterMemory(LedgerMemory):
    """What the table keeps for another limiter, such as Redis, which can lose its counts."""

    def __init__(self, table: DynamoTable, limiter: str) -> None:
        """Keep it for the limiter of that name."""
        super().__init__(DynamoLedgers(table))
        self._table = table
        self._limiter = limiter

    async def has_begun(self) -> bool:
        """Whether the limiter has ever counted requests."""
        return await self._table.get(self._key) is not None

    async def note_begun(self) -> None:
        """Store that the limiter counts requests from now on."""
        pk, sk = self._key
        item = {"pk": pk, "sk": sk, "begun_at": time_text(self._table.now())}
        try:
            await self._table.write(Put(item=item, condition=IS_NEW))
        except ConditionFailed:
            # It has begun before.
            return

    @property
    def _key(self) -> Key:
        return keys.limiter(self._limiter)
