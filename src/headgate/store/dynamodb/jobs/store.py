"""The `Store` port on DynamoDB.

Times are those of this process's clock, corrected to agree with DynamoDB's answers: DynamoDB has
no clock for its conditions.
"""

from collections.abc import Mapping, Sequence

from headgate.base.errors import StoreFault
from headgate.model.notification import TroubleRow
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.jobs.events import DynamoEvents
from headgate.store.dynamodb.jobs.retention import JobRetention
from headgate.store.dynamodb.jobs.submit import JobSubmission
from headgate.store.dynamodb.people.users import DynamoUsers
from headgate.store.dynamodb.records.coverage import DynamoCoverage
from headgate.store.dynamodb.records.receipts import DynamoReceipts
from headgate.store.dynamodb.records.store import DynamoRecords
from headgate.store.dynamodb.workers import DynamoWorkers


class DynamoStore(
    JobRetention,
    JobSubmission,
    DynamoEvents,
    DynamoRecords,
    DynamoReceipts,
    DynamoCoverage,
    DynamoWorkers,
):
    """Jobs, events, records and coverage in one DynamoDB table."""

    def __init__(self, table: DynamoTable, syncs: Sequence[str]) -> None:
        """Use `table`, which must be open, for an application with these syncs."""
        super().__init__(table)
        self.syncs = tuple(syncs)

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None if none was set."""
        return await DynamoUsers(self.table).plan_of(user_id)

    async def plans_of(self, user_ids: Sequence[str]) -> Mapping[str, str]:
        """The plans of these users, by user; who has none is left out."""
        return await DynamoUsers(self.table).plans_of(user_ids)

    async def tell_paused(self, *, limit: int) -> int:
        """Nobody is told: notifications need the outbox, which there is none of on DynamoDB."""
        return 0

    async def troubles(
        self, *, user_id: str | None = None, limit: int, after: tuple[str, str] | None = None
    ) -> Sequence[TroubleRow]:
        """Nothing, because nobody is told anything."""
        return []

    def find_fault(self) -> StoreFault | None:
        """None: DynamoDB has no disk that could be full."""
        return None

    async def free_locks(self) -> int:
        """None: a transaction of DynamoDB is one request, and leaves no lock behind."""
        return 0
