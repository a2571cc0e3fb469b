"""The backend on one DynamoDB table; hints go over SQS where there are queues.

It has no items, no schedules, no outbox, no tables of systems, and no erasure of users.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, NoRegionError

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput, StoreFault
from headgate.base.ids import system_random
from headgate.model.job import Lane
from headgate.ports.backend import JobStores
from headgate.ports.jobs.store import RowAttribute
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.signal import Signal
from headgate.store.dynamodb.engine.address import parse_address
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.jobs.claims import DynamoHintedClaims
from headgate.store.dynamodb.jobs.events import DynamoEvents
from headgate.store.dynamodb.jobs.recovery import DynamoBreakers
from headgate.store.dynamodb.jobs.store import DynamoJobs
from headgate.store.dynamodb.records.coverage import DynamoCoverage
from headgate.store.dynamodb.records.receipts import DynamoReceipts
from headgate.store.dynamodb.records.store import DynamoRecords
from headgate.store.dynamodb.workers import DynamoWorkers

# The stores are loaded when they are used: a function starts cold, and needs only some of them.
if TYPE_CHECKING:
    from headgate.store.dynamodb.budgets.limiter import DynamoLimiter, DynamoLimiterMemory
    from headgate.store.dynamodb.connections.attempts import DynamoConnectAttempts
    from headgate.store.dynamodb.connections.store import DynamoConnections
    from headgate.store.dynamodb.people.api_keys import DynamoApiKeys
    from headgate.store.dynamodb.people.idempotency import DynamoIdempotency
    from headgate.store.dynamodb.people.users import DynamoUsers

#: What any item may be asked for by, to see whether the table answers.
_ANY_KEY = ("ping", "ping")
#: There is one revision of the table so far.
REVISION = "1"


class DynamoBackend:
    """All stores in one DynamoDB table."""

    kind = "DynamoDB"
    embedded = False
    erasures = None
    items = None
    schedules = None
    outbox = None
    outbox_writer = None
    tables = None

    def __init__(self, table: DynamoTable, queues: Mapping[Lane, str]) -> None:
        """Use `table`; `queues` are the URLs of the lanes' SQS queues, if there are any."""
        self.table = table
        self._queues = queues
        self.events = DynamoEvents(table)
        self.records = DynamoRecords(table)
        self.receipts = DynamoReceipts(table)
        self.coverage = DynamoCoverage(table)
        self.workers = DynamoWorkers(table)

    @property
    def address(self) -> str:
        """The address for people."""
        return f"dynamodb://{self.table.name}"

    @cached_property
    def users(self) -> "DynamoUsers":
        """Users: plans, logins, preferences."""
        from headgate.store.dynamodb.people.users import DynamoUsers

        return DynamoUsers(self.table)

    @cached_property
    def connections(self) -> "DynamoConnections":
        """Connections with their sealed credentials."""
        from headgate.store.dynamodb.connections.store import DynamoConnections

        return DynamoConnections(self.table)

    @cached_property
    def attempts(self) -> "DynamoConnectAttempts":
        """Attempts to connect that wait for the user's return."""
        from headgate.store.dynamodb.connections.attempts import DynamoConnectAttempts

        return DynamoConnectAttempts(self.table)

    @cached_property
    def api_keys(self) -> "DynamoApiKeys":
        """The keys of the HTTP API."""
        from headgate.store.dynamodb.people.api_keys import DynamoApiKeys

        return DynamoApiKeys(self.table)

    @cached_property
    def idempotency(self) -> "DynamoIdempotency":
        """The responses to requests with an idempotency key."""
        from headgate.store.dynamodb.people.idempotency import DynamoIdempotency

        return DynamoIdempotency(self.table)

    @cached_property
    def limiter(self) -> "DynamoLimiter":
        """The limiter in this table."""
        from headgate.store.dynamodb.budgets.limiter import DynamoLimiter

        return DynamoLimiter(self.table)

    def limiter_memory(self, limiter: str) -> "DynamoLimiterMemory":
        """What the table keeps for a limiter elsewhere."""
        from headgate.store.dynamodb.budgets.limiter import DynamoLimiterMemory

        return DynamoLimiterMemory(self.table, limiter)

    def job_stores(
        self,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
        attributes: Sequence[RowAttribute] = (),
    ) -> JobStores:
        """The stores of jobs for an application with these syncs; nobody can be notified."""
        assert composer is None, "notifications need an outbox"
        return JobStores(
            jobs=DynamoJobs(self.table, syncs, attributes),
            breakers=DynamoBreakers(self.table, syncs, attributes),
            hinted=DynamoHintedClaims(self.table, syncs, attributes),
        )

    def signal(self, *, origin: str) -> Signal:
        """Over SQS, or within this process if there are no queues."""
        if self._queues:
            from headgate.signals.sqs import SqsSignal

            return SqsSignal(self._queues, self.table.now, region=self.table.client.address.region)
        from headgate.signals.local import LocalSignal

        return LocalSignal()

    def exists(self) -> bool:
        """True: whether the table is there turns out when it is opened."""
        return True

    def find_fault(self) -> StoreFault | None:
        """None: there is no disk that could be full."""
        return None

    async def open(self) -> None:
        """Make the client.

        Raises InvalidInput if the address and the environment do not say how: without a region, or
        with a profile, a region or an endpoint that there cannot be.
        """
        try:
            await self.table.open()
        except NoRegionError:
            raise InvalidInput(
                "database",
                "no region is set: set AWS_DEFAULT_REGION, or end the address with ?region=…",
            ) from None
        except (BotoCoreError, ValueError) as error:
            problem = str(error).rstrip(".")
            raise InvalidInput(
                "database",
                f"no client of DynamoDB can be made: {problem}; correct AWS_PROFILE and the files "
                "of the AWS CLI, or ?region=… and ?endpoint=… of the address",
            ) from None

    async def free_locks(self) -> int:
        """None: a transaction of DynamoDB is one request, and leaves no lock behind."""
        return 0

    async def prepare(self, tables: Mapping[str, str]) -> None:
        """Raise SchemaBehind if there is no such table."""
        await self.ping()

    async def migrate(self, tables: Mapping[str, str]) -> Mapping[str, tuple[str | None, str]]:
        """Make the table, if there is none."""
        made = await self.table.create()
        return {"headgate": (None if made else REVISION, REVISION)}

    async def ping(self) -> None:
        """Raise StoreUnavailable if DynamoDB does not respond.

        Whoever waits for the database asks before it is opened.
        """
        await self.open()
        await self.table.get(_ANY_KEY)

    async def close(self) -> None:
        """Close the client."""
        await self.table.close()


def open_dynamodb(address: str, clock: Clock, queues: Mapping[Lane, str]) -> DynamoBackend:
    """Return the backend at an address, not yet connected."""
    client = DynamoClient(parse_address(address), clock, system_random())
    return DynamoBackend(DynamoTable(client), queues)
