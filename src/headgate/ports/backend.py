"""A backend: one database with all its stores, as the composition root uses it.

What a backend does not have is None, and an application that needs it is refused when it is made.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from headgate.ports.connections.store import (
    ConnectAttemptStore,
    ConnectionStore,
    CredentialStore,
    KeyRotationStore,
)
from headgate.ports.database import DatabaseHealth
from headgate.ports.items import ItemStore
from headgate.ports.jobs.breakers import BreakerStore
from headgate.ports.jobs.events import EventStore
from headgate.ports.jobs.hints import HintedClaims
from headgate.ports.jobs.store import JobStore, RowAttribute
from headgate.ports.limiter import Limiter, LimiterMemory
from headgate.ports.outbox import OutboxStore, OutboxWriter
from headgate.ports.people.api_keys import ApiKeyStore
from headgate.ports.people.erasures import ErasureStore
from headgate.ports.people.idempotency import IdempotencyStore
from headgate.ports.people.notifications import NotificationComposer, NotificationStore
from headgate.ports.people.users import UserStore
from headgate.ports.records.coverage import CoverageStore
from headgate.ports.records.receipts import ReceiptStore
from headgate.ports.records.store import RecordStore
from headgate.ports.schedules import ScheduleStore
from headgate.ports.signal import Signal
from headgate.ports.workers import WorkerStore


class ConnectionStores(ConnectionStore, CredentialStore, KeyRotationStore, Protocol):
    """Everything that is stored of connections."""


class JobStores(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of jobs, for an application with certain syncs."""

    jobs: JobStore
    breakers: BreakerStore
    #: The jobs one by one, as messages name them; None where they cannot be claimed so.
    hinted: HintedClaims | None = None
    #: What people were told of jobs; None where there is no outbox.
    notifications: NotificationStore | None = None


class Backend(DatabaseHealth, Protocol):
    """A database and its stores; nothing is read or written before `open`."""

    @property
    def kind(self) -> str:
        """The name of the database product, for people."""
        ...

    @property
    def address(self) -> str:
        """The address for people: whole, and without a password."""
        ...

    @property
    def embedded(self) -> bool:
        """Whether the database belongs to this process, which migrates it at start."""
        ...

    @property
    def items(self) -> ItemStore | None:
        """Items and their documents."""
        ...

    @property
    def users(self) -> UserStore:
        """Users: plans, logins, preferences."""
        ...

    @property
    def connections(self) -> ConnectionStores:
        """Connections with their sealed credentials."""
        ...

    @property
    def attempts(self) -> ConnectAttemptStore:
        """Attempts to connect that wait for the user's return."""
        ...

    @property
    def api_keys(self) -> ApiKeyStore:
        """The keys of the HTTP API."""
        ...

    @property
    def idempotency(self) -> IdempotencyStore:
        """The responses to requests with an idempotency key."""
        ...

    @property
    def erasures(self) -> ErasureStore | None:
        """Erasures and exports of users."""
        ...

    @property
    def schedules(self) -> ScheduleStore | None:
        """Schedules and their ticks."""
        ...

    @property
    def outbox(self) -> OutboxStore | None:
        """Messages and their deliveries."""
        ...

    @property
    def outbox_writer(self) -> OutboxWriter | None:
        """What enqueues messages in an application's own transaction."""
        ...

    @property
    def tables(self) -> Any | None:
        """The SQL database, for the tables of systems, which they query by themselves."""
        ...

    @property
    def limiter(self) -> Limiter:
        """The limiter in this database."""
        ...

    def limiter_memory(self, limiter: str) -> LimiterMemory | None:
        """What the database keeps for a limiter elsewhere, such as Redis."""
        ...

    @property
    def events(self) -> EventStore:
        """The events of jobs."""
        ...

    @property
    def records(self) -> RecordStore:
        """Records in this database."""
        ...

    @property
    def receipts(self) -> ReceiptStore:
        """What destinations have made of records."""
        ...

    @property
    def coverage(self) -> CoverageStore:
        """The coverage of the days of histories."""
        ...

    @property
    def workers(self) -> WorkerStore:
        """Worker processes."""
        ...

    def job_stores(
        self,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
        attributes: Sequence[RowAttribute] = (),
    ) -> JobStores:
        """The stores of jobs for an application with these syncs.

        `composer` writes notifications; `attributes` are what others read of a job's row besides.
        """
        ...

    def signal(self, *, origin: str) -> Signal:
        """The signal that goes with the database, for the process of that name; not started."""
        ...

    def exists(self) -> bool:
        """Whether it is there; `open` creates an embedded database that is not."""
        ...

    async def open(self) -> None:
        """Connect; safe to call twice."""
        ...

    async def prepare(self, tables: Mapping[str, str]) -> None:
        """Check the revisions of all tables, or migrate them if the database is embedded.

        `tables` are the addresses of systems' own tables, by the system's name.
        """
        ...

    async def migrate(self, tables: Mapping[str, str]) -> Mapping[str, tuple[str | None, str]]:
        """Migrate all tables; returns the revisions before and after, by owner."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable if the database does not respond."""
        ...

    async def close(self) -> None:
        """Finish what runs and disconnect; safe to call twice or before `open`."""
        ...
