"""All stores of one database, by noun, as an application with certain syncs has them."""

from collections.abc import Sequence

from headgate.ports.backend import ConnectionStores
from headgate.ports.connections.store import ConnectAttemptStore
from headgate.ports.jobs.breakers import BreakerStore
from headgate.ports.jobs.events import EventStore
from headgate.ports.jobs.store import JobStore, RowAttribute
from headgate.ports.people.api_keys import ApiKeyStore
from headgate.ports.people.idempotency import IdempotencyStore
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.people.users import UserStore
from headgate.ports.records.coverage import CoverageStore
from headgate.ports.records.receipts import ReceiptStore
from headgate.ports.records.store import RecordStore
from headgate.ports.workers import WorkerStore
from headgate.store.dynamodb.connections.attempts import DynamoConnectAttempts
from headgate.store.dynamodb.connections.store import DynamoConnections
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.jobs.claims import DynamoHintedClaims
from headgate.store.dynamodb.jobs.events import DynamoEvents
from headgate.store.dynamodb.jobs.recovery import DynamoBreakers
from headgate.store.dynamodb.jobs.store import DynamoJobs
from headgate.store.dynamodb.people.api_keys import DynamoApiKeys
from headgate.store.dynamodb.people.idempotency import DynamoIdempotency
from headgate.store.dynamodb.people.users import DynamoUsers
from headgate.store.dynamodb.records.coverage import DynamoCoverage
from headgate.store.dynamodb.records.receipts import DynamoReceipts
from headgate.store.dynamodb.records.store import DynamoRecords
from headgate.store.dynamodb.workers import DynamoWorkers
from headgate.store.sql.connections.attempts import SqlConnectAttempts
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from headgate.store.sql.jobs.events import SqlEvents
from headgate.store.sql.jobs.recovery import SqlBreakers
from headgate.store.sql.jobs.store import SqlJobs
from headgate.store.sql.people.api_keys import SqlApiKeys
from headgate.store.sql.people.idempotency import SqlIdempotency
from headgate.store.sql.people.long_pauses import SqlNotifications
from headgate.store.sql.people.users import SqlUsers
from headgate.store.sql.records.coverage import SqlCoverage
from headgate.store.sql.records.receipts import SqlReceipts
from headgate.store.sql.records.store import SqlRecords
from headgate.store.sql.workers import SqlWorkers


class Stores:
    """The stores that every kind of database has."""

    jobs: JobStore
    breakers: BreakerStore
    events: EventStore
    records: RecordStore
    receipts: ReceiptStore
    coverage: CoverageStore
    workers: WorkerStore
    users: UserStore
    connections: ConnectionStores
    attempts: ConnectAttemptStore
    api_keys: ApiKeyStore
    idempotency: IdempotencyStore


class SqlStores(Stores):
    """The stores in a SQL database."""

    jobs: SqlJobs

    def __init__(
        self,
        database: Database,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
    ) -> None:
        self.database = database
        self.jobs = SqlJobs(database, syncs, composer)
        self.breakers = SqlBreakers(database, syncs)
        self.notifications = SqlNotifications(database, syncs, composer)
        self.events = SqlEvents(database)
        self.records = SqlRecords(database)
        self.receipts = SqlReceipts(database)
        self.coverage = SqlCoverage(database)
        self.workers = SqlWorkers(database)
        self.users = SqlUsers(database)
        self.connections = SqlConnections(database)
        self.attempts = SqlConnectAttempts(database)
        self.api_keys = SqlApiKeys(database)
        self.idempotency = SqlIdempotency(database)


class DynamoStores(Stores):
    """The stores in a table of DynamoDB."""

    jobs: DynamoJobs

    def __init__(
        self,
        table: DynamoTable,
        syncs: Sequence[str],
        attributes: Sequence[RowAttribute] = (),
    ) -> None:
        self.table = table
        self.jobs = DynamoJobs(table, syncs, attributes)
        self.breakers = DynamoBreakers(table, syncs, attributes)
        self.hinted = DynamoHintedClaims(table, syncs, attributes)
        self.events = DynamoEvents(table)
        self.records = DynamoRecords(table)
        self.receipts = DynamoReceipts(table)
        self.coverage = DynamoCoverage(table)
        self.workers = DynamoWorkers(table)
        self.users = DynamoUsers(table)
        self.connections = DynamoConnections(table)
        self.attempts = DynamoConnectAttempts(table)
        self.api_keys = DynamoApiKeys(table)
        self.idempotency = DynamoIdempotency(table)


def stores_in(database: Database | DynamoTable, syncs: Sequence[str]) -> Stores:
    """The stores in a database, which must be open."""
    if isinstance(database, DynamoTable):
        return DynamoStores(database, syncs)
    return SqlStores(database, syncs)
