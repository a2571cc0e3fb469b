"""The backend on SQLite or Postgres."""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput, StoreFault
from headgate.base.lazy import load, needs_extra
from headgate.ports.backend import JobStores
from headgate.ports.jobs.store import RowAttribute
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.signal import Signal
from headgate.store.sql import schema
from headgate.store.sql.budgets.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.connections.attempts import SqlConnectAttempts
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.jobs.events import SqlEvents
from headgate.store.sql.jobs.recovery import SqlBreakers
from headgate.store.sql.jobs.store import SqlJobs
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.outbox.writer import SqlOutboxWriter
from headgate.store.sql.people.api_keys import SqlApiKeys
from headgate.store.sql.people.erasures import SqlErasures
from headgate.store.sql.people.idempotency import SqlIdempotency
from headgate.store.sql.people.long_pauses import SqlNotifications
from headgate.store.sql.people.users import SqlUsers
from headgate.store.sql.records.coverage import SqlCoverage
from headgate.store.sql.records.receipts import SqlReceipts
from headgate.store.sql.records.store import SqlRecords
from headgate.store.sql.schedules.store import SqlSchedules
from headgate.store.sql.schema import Schema
from headgate.store.sql.workers import SqlWorkers


class SqlBackend:
    """All stores in one SQL database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Use `database`, which may be open already."""
        self.tables = self._database = database
        self._clock = clock
        self.events = SqlEvents(database)
        self.records = SqlRecords(database)
        self.receipts = SqlReceipts(database)
        self.coverage = SqlCoverage(database)
        self.workers = SqlWorkers(database)
        self.items = SqlItems(database)
        self.users = SqlUsers(database)
        self.connections = SqlConnections(database)
        self.attempts = SqlConnectAttempts(database)
        self.api_keys = SqlApiKeys(database)
        self.idempotency = SqlIdempotency(database)
        self.schedules = SqlSchedules(database)
        self.outbox = SqlOutbox(database, clock)
        self.outbox_writer = SqlOutboxWriter(clock)

    @property
    def kind(self) -> str:
        """The name of the database product."""
        return "SQLite" if isinstance(self._database, SqliteDatabase) else "Postgres"

    @property
    def address(self) -> str:
        """The address for people."""
        return self._database.address

    @property
    def embedded(self) -> bool:
        """Whether the database belongs to this process."""
        return self._database.embedded

    @cached_property
    def erasures(self) -> SqlErasures:
        """Erasures and exports of users."""
        return SqlErasures(self._database)

    @cached_property
    def limiter(self) -> SqlLimiter:
        """The limiter in this database."""
        return SqlLimiter(self._database)

    def limiter_memory(self, limiter: str) -> SqlLimiterMemory:
        """What the database keeps for a limiter elsewhere."""
        return SqlLimiterMemory(self._database, limiter)

    def job_stores(
        self,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
        attributes: Sequence[RowAttribute] = (),
    ) -> JobStores:
        """The stores of jobs for an application with these syncs; rows have no more attributes."""
        return JobStores(
            jobs=SqlJobs(self._database, syncs, composer),
            breakers=SqlBreakers(self._database, syncs),
            notifications=SqlNotifications(self._database, syncs, composer),
        )

    def signal(self, *, origin: str) -> Signal:
        """The signal that goes with the database."""
        if isinstance(self._database, SqliteDatabase):
            from headgate.signals.sqlite import SqliteSignal

            database = self._database
            return SqliteSignal(database.path, database.foreign_commits, self._clock, origin=origin)
        from headgate.signals.postgres import PostgresSignal
        from headgate.store.sql.engine.postgres import PostgresDatabase

        assert isinstance(self._database, PostgresDatabase)
        return PostgresSignal(self._database.dsn, self._clock, origin=origin)

    def exists(self) -> bool:
        """Whether it is there."""
        return self._database.exists()

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the disk or the file."""
        return self._database.find_fault()

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering."""
        return await self._database.free_locks()

    async def open(self) -> None:
        """Connect."""
        await self._database.open()

    async def prepare(self, tables: Mapping[str, str]) -> None:
        """Migrate an embedded database; check the revisions of any other."""
        await schema.prepare(self._database, _schemas(tables))

    async def migrate(self, tables: Mapping[str, str]) -> Mapping[str, tuple[str | None, str]]:
        """Migrate all tables."""
        return {each.name: await schema.migrate(self._database, each) for each in _schemas(tables)}

    async def ping(self) -> None:
        """Raise StoreUnavailable if the database does not respond."""
        await self._database.ping()

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()


def _schemas(tables: Mapping[str, str]) -> Sequence[Schema]:
    """The schemas of Headgate itself and of the systems that have tables."""
    schemas = [schema.ENGINE]
    for system, address in tables.items():
        own = load(address, field=f"{system}.tables")
        module = sys.modules[address.partition(":")[0]]
        migrations = Path(str(module.__file__)).parent / "migrations"
        schemas.append(schema.schema_of(system, own, migrations))
    return schemas


def open_database(address: str, clock: Clock) -> Database:
    """Return the database at an address, not yet connected."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    # A port that is no number is a ValueError.
    except (ArgumentError, ValueError):
        raise InvalidInput(
            "database", "is not an address; write sqlite:///file.db or postgresql://host/name"
        ) from None
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise InvalidInput("database", "name a file, such as sqlite:///headgate.db")
            return SqliteDatabase(Path(url.database), clock)
        case "postgresql":
            with needs_extra("database", "postgres"):
                from headgate.store.sql.engine.postgres import PostgresDatabase

                # Inside the block: SQLAlchemy imports the driver only here.
                return PostgresDatabase(address, clock)
            raise AssertionError("unreachable")
        case other:
            raise InvalidInput(
                "database", f"{other} is not supported; use sqlite, postgresql or dynamodb"
            )
