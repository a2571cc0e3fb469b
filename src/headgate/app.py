"""The composition root: the only place that picks a clock, a database and a signal.

An application works with one `App`: it submits jobs, reads their status, and runs workers.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar, cast

import msgspec

from headgate.backends import (
    check_needs,
    configure_systems,
    load_settings,
    open_backend,
    open_limiter,
    open_sender,
    open_transport,
    open_vault,
    require_part,
    vault_from,
)
from headgate.base.clock import Clock, SystemClock
from headgate.base.errors import InvalidInput
from headgate.base.ids import UlidIds, system_random
from headgate.base.process_name import ProcessName
from headgate.flow.budget.gate import BudgetGate
from headgate.flow.budget.service import Budgets
from headgate.flow.connections.credentials import Credentials
from headgate.flow.connections.rekey import ProgressCallback, RekeyResult, rekey
from headgate.flow.connections.service import Connections
from headgate.flow.items.fetch import ItemFetcher
from headgate.flow.items.service import Items
from headgate.flow.jobs.service import Jobs
from headgate.flow.measurements import Measurements
from headgate.flow.notifications.service import Composer, Notifications, NotificationSettings
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.service import Outbox
from headgate.flow.records.service import Records
from headgate.flow.registry import Sync
from headgate.flow.runtime import STORES, Runtime
from headgate.flow.schedules.service import Schedules
from headgate.flow.users.api_keys import ApiKeys
from headgate.flow.users.service import Users
from headgate.limits.memory import MemoryLimiter
from headgate.loops.on_demand import OnDemandWorker
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.job import Lane
from headgate.model.schedule import Schedule
from headgate.model.target import Target, Topic
from headgate.model.worker import Worker
from headgate.policy.entitlement import Entitlement
from headgate.ports.connections.auth import AuthContext, Vault
from headgate.ports.outbox import OutboxStore
from headgate.ports.people.idempotency import IdempotencyStore
from headgate.ports.signal import Signal
from headgate.ports.transport import Transport
from headgate.system import System, build_registry, build_targets
from headgate.system_data import AppSystemData

# SQLAlchemy and the settings take longer to load than all the rest together, so they are imported
# where they are used.
if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headgate.ports.backend import Backend
    from headgate.store.sql.engine.database import Database

T = TypeVar("T")


class App:
    """Headgate on one database, with the systems and syncs that an application declares.

    It is made of

    - `database`: the backend, which has all stores at one address;
    - `registry`: the syncs of `systems` and of the application itself, with all that they declare;
    - the runtime (`flow/runtime.py`): stores, registry, clock, budgets, … for the rules in `flow`;
    - facades of the runtime, one for a noun: `jobs`, `records`, `outbox`, `users`, …;
    - workers on it: `supervisor` runs the loops, `on_demand` the jobs that somebody names.
    """

    #: Systems that were to be part of it and could not be started, by name, each with the reason.
    #: Whoever looked for them, such as a command, notes them here.
    unstarted: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        database: "str | Database | Backend" = "sqlite:///headgate.db",
        *,
        systems: Iterable[System] = (),
        syncs: Iterable[Sync] = (),
        topics: Iterable[Topic] = (),
        targets: Iterable[Target] = (),
        schedules: Iterable[Schedule] = (),
        notifications: NotificationSettings | None = None,
        worker: WorkerSettings | None = None,
        redis: str | None = None,
        entitlement: Entitlement | None = None,
        vault: Vault | None = None,
        transport: Transport | None = None,
        signal: Signal | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Use the database at that address: `sqlite:///file.db` or `postgresql://…`.

        `systems` bring syncs, tables, routes and commands; `syncs`, `topics`, `targets` and
        `schedules` are of no system. `notifications` says who is told of jobs. Budgets are counted
        in the database, or in the Redis at the address `redis`. `entitlement` decides what a plan
        includes, such as `headgate.paid_history`. `vault` encrypts credentials; by default with the
        keys in the settings. A test has its own database, transport, signal, clock and randomness.
        """
        self.clock = clock or SystemClock()
        self.rng = rng or system_random()
        self._ids = UlidIds(self.clock, self.rng)
        self._worker_settings = worker or WorkerSettings()
        #: The name of this process, on its claims and leases.
        self._process = ProcessName(self._ids)
        self.name = self._process.name
        #: The database with its stores, such as for the address that a command shows.
        self.database = backend = open_backend(database, self.clock)
        #: The systems by name.
        self.systems = configure_systems(systems)
        #: What the application declares: syncs, providers, budgets and collections.
        self.registry = registry = build_registry(self.systems.values(), syncs, schedules)
        composer = None if notifications is None else Composer(notifications, registry.titles)
        attributes = [each for system in self.systems.values() for each in system.row_attributes]
        self._job_stores = backend.job_stores(registry.names, composer, attributes)
        self._limiter = open_limiter(backend, redis, self.clock, self._ids)
        self._notification_settings = notifications
        self._targets = build_targets(self.systems.values(), topics, targets, notifications)
        check_needs(backend, self.systems.values(), registry, self._targets)
        #: Why the application cannot be opened, if it cannot.
        self._unready: InvalidInput | None = None
        #: The transports that this object opened and has to close.
        self._own_transports: list[Transport] = []
        #: What this process has measured of its own work.
        self.measurements = Measurements(registry)
        drainer, vault, transport = self._open_parts(vault, transport)
        self._runtime = self._build_runtime(signal, vault, transport, entitlement, drainer)

    def _open_parts(
        self, vault: Vault | None, transport: Transport | None
    ) -> tuple[Drainer | None, Vault | None, Transport | None]:
        """What depends on the settings; if they are wrong, the application cannot be opened."""
        drainer = None
        try:
            drainer = self._open_drainer(transport)
            vault = vault or open_vault(self.registry)
            if transport is None:
                transport = open_transport(self.registry)
                self._own_transports += [] if transport is None else [transport]
        except InvalidInput as error:
            self._unready = error
        return drainer, vault, transport

    def _build_runtime(
        self,
        signal: Signal | None,
        vault: Vault | None,
        transport: Transport | None,
        entitlement: Entitlement | None,
        drainer: Drainer | None,
    ) -> Runtime:
        database = self.database
        return Runtime(
            jobs=self._job_stores.jobs,
            breakers=self._job_stores.breakers,
            database=database,
            **{name: getattr(database, name) for name in STORES},
            system_data=AppSystemData(self),
            notifications=self._job_stores.notifications if self._notification_settings else None,
            signal=signal or database.signal(origin=self.name),
            clock=self.clock,
            ids=self._ids,
            rng=self.rng,
            registry=self.registry,
            gates=BudgetGate(self._limiter, MemoryLimiter(self.clock), self.clock, self._ids),
            fetching=self._item_fetcher(),
            chunk_limits=self._worker_settings.chunk,
            targets=self._targets,
            drainer=drainer,
            measurements=self.measurements,
            transport=transport,
            credentials=self._credentials(vault, transport),
            entitlement=entitlement,
        )

    def _item_fetcher(self) -> ItemFetcher | None:
        if self.database.items is None:
            return None
        return ItemFetcher(
            items=self.database.items,
            clock=self.clock,
            worker=self.name,
            lease=timedelta(seconds=self._worker_settings.lease_s),
            collections=self.registry.collections,
            measurements=self.measurements,
        )

    def _open_drainer(self, transport: Transport | None) -> Drainer | None:
        """What sends messages, over `transport` or one of its own; None if there is no target."""
        if not len(self._targets):
            return None
        sender, opened = open_sender(
            self._targets,
            self._notification_settings,
            self.clock,
            email_of=self.database.users.email_of,
            transport=transport,
        )
        self._own_transports += opened
        return Drainer(
            store=self._outbox_store,
            sender=sender,
            targets=self._targets,
            clock=self.clock,
            rng=self.rng,
            worker=self.name,
            lease=timedelta(seconds=self._worker_settings.lease_s),
            retry=self._worker_settings.outbox.retry,
            measurements=self.measurements,
            find_fault=self.database.find_fault,
        )

    def _credentials(self, vault: Vault | None, transport: Transport | None) -> Credentials | None:
        if vault is None or transport is None:
            return None
        context = AuthContext(transport=transport, clock=self.clock, rng=self.rng)
        return Credentials(self.database.connections, vault, context, self._ids)

    async def open(self) -> None:
        """Connect to the database, migrate it if it is a SQLite file, and listen for signals.

        Raises InvalidInput if a source needs encryption keys and there are none, and after a fork.
        """
        self._process.check()
        if self._unready is not None:
            raise self._unready
        await self.database.open()
        await self.database.prepare(self._tables)
        await self._runtime.signal.start()

    async def migrate(self) -> "Mapping[str, tuple[str | None, str]]":
        """Migrate all tables; returns the revisions before and after, by owner."""
        await self.database.open()
        return await self.database.migrate(self._tables)

    @property
    def _tables(self) -> Mapping[str, str]:
        """The addresses of systems' own tables."""
        return {each.name: each.tables for each in self.systems.values() if each.tables is not None}

    async def close(self) -> None:
        """Close all connections; safe to call twice."""
        await self._runtime.signal.stop()
        if self._runtime.credentials is not None:
            await self._runtime.credentials.close()
        for transport in self._own_transports:
            await transport.close()
        await self._limiter.close()
        await self.database.close()

    async def __aenter__(self) -> Self:
        """Open the application."""
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close the application."""
        await self.close()

    @property
    def jobs(self) -> Jobs:
        """Jobs: submit, follow and control them."""
        return Jobs(self._runtime)

    @property
    def items(self) -> Items:
        """Items: things that are fetched one by one."""
        require_part(self.database, "items", self.database.items)
        return Items(self._runtime)

    @property
    def records(self) -> Records:
        """The stored records, and which days are covered."""
        return Records(self._runtime)

    @property
    def schedules(self) -> Schedules:
        """Schedules: look at them, plan, run, pause and resume them."""
        require_part(self.database, "schedules", self.database.schedules)
        return Schedules(self._runtime, worker=self.name)

    @property
    def budgets(self) -> Budgets:
        """The use of the declared budgets."""
        return Budgets(self._runtime)

    @property
    def users(self) -> Users:
        """Users: their plans, logins and preferences."""
        return Users(self._runtime)

    @property
    def _outbox_store(self) -> OutboxStore:
        return require_part(self.database, "an outbox", self.database.outbox)

    @cached_property
    def outbox(self) -> Outbox:
        """Messages to other systems, enqueued in an application's own transactions."""
        return Outbox(
            store=self._outbox_store,
            writer=require_part(self.database, "an outbox", self.database.outbox_writer),
            targets=self._targets,
            signal=self._runtime.signal,
            ids=self._ids,
            drainer=self._runtime.drainer,
            settings=self._worker_settings.outbox,
        )

    @property
    def notifications(self) -> Notifications:
        """What people were told about jobs, and a test of whether they can be told."""
        told = require_part(self.database, "an outbox", self._job_stores.notifications)
        return Notifications(self._notification_settings, self.outbox, told)

    @property
    def api_keys(self) -> ApiKeys:
        """The keys for the HTTP API."""
        return ApiKeys(self._runtime)

    @property
    def connections(self) -> Connections:
        """Users' connections to providers: make, pause and remove them."""
        return Connections(self._runtime)

    @property
    def idempotency(self) -> IdempotencyStore:
        """The responses to API requests with an idempotency key."""
        return self.database.idempotency

    async def workers(self) -> Sequence[Worker]:
        """Return the worker processes that are alive, and what each can run."""
        return await self._runtime.workers.live_workers()

    @property
    def _database(self) -> "Database":
        """The SQL database; InvalidInput if it is another kind."""
        return cast("Database", require_part(self.database, "tables", self.database.tables))

    async def read(self, operation: "Callable[[Connection], T]") -> T:
        """Run a system's own queries: `operation(connection)`, which changes nothing."""
        return await self._database.read(operation)

    async def write(self, operation: "Callable[[Connection], T]") -> T:
        """Run a system's own changes in one transaction: `operation(connection)`.

        It may run again after a failure, so it must do nothing but talk to the database.
        """
        written, enqueued = await self._database.write(self.outbox.detects_enqueue(operation))
        if enqueued:
            await self.outbox.announce()
        return written

    async def ping(self) -> None:
        """Raise StoreUnavailable if the database does not respond."""
        await self.database.ping()

    async def rotate_keys(
        self, *, progress: ProgressCallback = lambda done, total: None
    ) -> RekeyResult:
        """Encrypt all credentials with the newest key; safe to stop and to repeat."""
        credentials = self._runtime.credentials
        vault = vault_from(load_settings()) if credentials is None else credentials.vault
        return await rekey(self.database.connections, vault, progress=progress)

    def supervisor(self, lanes: Sequence[Lane] = tuple(Lane)) -> Supervisor:
        """Return a worker for these lanes; `run_until_stopped` runs it."""
        chosen = {lane: size for lane, size in self._worker_settings.lanes.items() if lane in lanes}
        settings = msgspec.structs.replace(self._worker_settings, lanes=chosen)
        return Supervisor(self._runtime, settings, worker=self.name)

    @cached_property
    def on_demand(self) -> OnDemandWorker:
        """A worker for jobs that somebody names, such as a queue; it runs no loop."""
        hinted = require_part(self.database, "claims by messages", self._job_stores.hinted)
        return OnDemandWorker(self._runtime, hinted, self._worker_settings, worker=self.name)
