"""The composition root: the only place that picks a clock, a database and a signal.

An `App` is what an application holds: it submits jobs, asks about them, and runs workers.
"""

import os
import random
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from headgate.base.clock import Clock, SystemClock
from headgate.base.errors import InvalidInput
from headgate.base.ids import UlidIds, system_random
from headgate.base.lazy import load
from headgate.connectors.addresses import HTTPS_PORT, AddressRules
from headgate.flow.api_keys import ApiKeys
from headgate.flow.backfill import Backfills
from headgate.flow.budgets import Budgets
from headgate.flow.connect import Connections
from headgate.flow.credentials import Credentials
from headgate.flow.fetch_item import ItemFetcher
from headgate.flow.gate import BudgetGate
from headgate.flow.items import Items
from headgate.flow.jobs import Jobs
from headgate.flow.measurements import Measurements
from headgate.flow.records import Records
from headgate.flow.registry import Collection, Registry, Sync
from headgate.flow.rekey import Progress, RekeyResult, rekey
from headgate.flow.runtime import Runtime
from headgate.flow.users import Users
from headgate.limits.memory import MemoryLimiter
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.job import Lane
from headgate.model.worker import Worker
from headgate.policy.entitlement import Entitlement
from headgate.ports.auth import AuthContext, Vault
from headgate.ports.connector import Provider
from headgate.ports.idempotency import IdempotencyStore
from headgate.ports.limiter import Limiter
from headgate.ports.signal import Signal
from headgate.ports.transport import Transport
from headgate.system import System

# SQLAlchemy and the settings take longer to load than all the rest together: whoever needs them
# imports them where they are used.
if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headgate.settings import Settings
    from headgate.store.sql.database import Database
    from headgate.store.sql.schema import Schema

T = TypeVar("T")


class App:
    """Headgate on one database, with the systems and the syncs that an application declares."""

    def __init__(
        self,
        database: "str | Database" = "sqlite:///headgate.db",
        *,
        systems: Iterable[System] = (),
        syncs: Iterable[Sync] = (),
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

        `systems` bring syncs, tables, routes and commands; `syncs` are those of no system.
        Budgets are kept in it too, or in the Redis at the address `redis`. `entitlement` says which
        plans include what, such as `headgate.paid_history`. Users' credentials are encrypted by
        `vault`, else with the keys in the settings. A test or a simulation hands in a database, a
        transport, a signal, a clock and randomness of its own.
        """
        from headgate.store.sql.api_keys import SqlApiKeys
        from headgate.store.sql.connect_attempts import SqlConnectAttempts
        from headgate.store.sql.connections import SqlConnections
        from headgate.store.sql.item_store import SqlItems
        from headgate.store.sql.limiter import SqlLimiter, SqlLimiterMemory
        from headgate.store.sql.store import SqlStore

        self.clock = clock or SystemClock()
        self.rng = rng or system_random()
        self._ids = UlidIds(self.clock, self.rng)
        self._worker_settings = worker or WorkerSettings()
        #: Names this process wherever it holds something.
        self.name = self._ids.new(f"{socket.gethostname()}-{os.getpid()}")
        self._database = (
            open_database(database, self.clock) if isinstance(database, str) else database
        )
        #: By their names.
        self.systems = _by_name(systems)
        #: What is declared: syncs, and by their names providers, budgets and collections.
        self.registry = registry = _registry(self.systems.values(), syncs)
        self._store = SqlStore(self._database, registry.names)
        self._items = SqlItems(self._database)
        self._connections = SqlConnections(self._database)
        self._attempts = SqlConnectAttempts(self._database)
        self._api_keys = SqlApiKeys(self._database)
        self._limiter: Limiter = SqlLimiter(self._database)
        if redis is not None:
            with _of_extra("redis", "redis"):
                from headgate.limits.redis import RedisLimiter
            memory = SqlLimiterMemory(self._database, "redis")
            self._limiter = RedisLimiter(redis, memory, self.clock, self._ids)
        #: Why it cannot be opened.
        self._unready: InvalidInput | None = None
        #: The transport that is ours to close.
        self._own_transport: Transport | None = None
        try:
            vault = vault or _vault(registry)
            transport = transport or self._open_transport(registry)
        except InvalidInput as error:
            self._unready = error
        #: What this process has measured of its own work.
        self.measurements = measurements = Measurements(registry)
        self._runtime = Runtime(
            store=self._store,
            signal=signal or _signal(self._database, self.clock, origin=self.name),
            clock=self.clock,
            ids=self._ids,
            rng=self.rng,
            registry=registry,
            gates=BudgetGate(self._limiter, MemoryLimiter(self.clock), self.clock, self._ids),
            fetching=ItemFetcher(
                items=self._items,
                clock=self.clock,
                worker=self.name,
                lease=timedelta(seconds=self._worker_settings.lease_s),
                collections=registry.collections,
                measurements=measurements,
            ),
            measurements=measurements,
            transport=transport,
            credentials=self._credentials(vault, transport),
            entitlement=entitlement,
        )

    def _open_transport(self, registry: Registry) -> Transport | None:
        self._own_transport = _transport(registry)
        return self._own_transport

    def _credentials(self, vault: Vault | None, transport: Transport | None) -> Credentials | None:
        if vault is None or transport is None:
            return None
        auth_context = AuthContext(transport=transport, clock=self.clock, rng=self.rng)
        return Credentials(self._connections, vault, auth_context, self._ids)

    async def open(self) -> None:
        """Connect, bring an embedded database up to date, begin to listen.

        Refuses to, where sources need keys and there are none, or none that are any good.
        """
        from headgate.store.sql import schema

        if self._unready is not None:
            raise self._unready
        await self._database.open()
        await schema.prepare(self._database, self._schemas())
        await self._runtime.signal.start()

    async def migrate(self) -> "Mapping[str, tuple[str | None, str]]":
        """Bring the tables of Headgate and of every system up to date.

        Returns the revisions before and after, by whose tables they are. SQLite files do this by
        themselves when they are opened; the application need not be open.
        """
        from headgate.store.sql import schema

        await self._database.open()
        return {each.name: await schema.migrate(self._database, each) for each in self._schemas()}

    def _schemas(self) -> "Sequence[Schema]":
        from headgate.store.sql.schema import ENGINE, schema_of

        found = [ENGINE]
        for system in self.systems.values():
            if system.tables is not None:
                tables = load(system.tables, field=f"{system.name}.tables")
                module = sys.modules[system.tables.partition(":")[0]]
                migrations = Path(str(module.__file__)).parent / "migrations"
                found.append(schema_of(system.name, tables, migrations))
        return found

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""
        await self._runtime.signal.stop()
        if self._runtime.credentials is not None:
            await self._runtime.credentials.close()
        if self._own_transport is not None:
            await self._own_transport.close()
        await self._limiter.close()
        await self._database.close()

    async def __aenter__(self) -> Self:
        """Open."""
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    @property
    def jobs(self) -> Jobs:
        """Jobs: submitting, following and steering them."""
        return Jobs(self._runtime, self._connections)

    @property
    def items(self) -> Items:
        """Items: things that are fetched one by one."""
        return Items(self._runtime)

    @property
    def records(self) -> Records:
        """Records that Headgate keeps, and which days are covered."""
        return Records(self._runtime)

    @property
    def budgets(self) -> Budgets:
        """How the declared budgets stand."""
        return Budgets(self._runtime)

    @property
    def users(self) -> Users:
        """What is known of users."""
        return Users(self._runtime)

    @property
    def api_keys(self) -> ApiKeys:
        """Who may call the HTTP API."""
        return ApiKeys(self._api_keys, self._runtime)

    @property
    def backfills(self) -> Backfills:
        """Imports of a user's past: forecasting, starting and following them."""
        return Backfills(self._runtime, self._connections)

    @property
    def connections(self) -> Connections:
        """Users' connections to providers: making, pausing, removing them."""
        rt = self._runtime
        return Connections(
            self._connections, self._attempts, rt.credentials, rt.registry, self._items
        )

    @property
    def idempotency(self) -> IdempotencyStore:
        """Requests to the HTTP API that came with a key, and their answers."""
        from headgate.store.sql.idempotency import SqlIdempotency

        return SqlIdempotency(self._database)

    async def workers(self) -> Sequence[Worker]:
        """The worker processes that are alive, and what each can run."""
        return await self._store.live_workers()

    # ---- a system's own tables -----------------------------------------------------------------

    async def read(self, operation: "Callable[[Connection], T]") -> T:
        """Run a system's own queries: `operation(connection)`, which changes nothing."""
        return await self._database.read(operation)

    async def write(self, operation: "Callable[[Connection], T]") -> T:
        """Run a system's own changes in one transaction: `operation(connection)`.

        It may run again after a failure, and on SQLite it shares its transaction's commit with
        others: it must do nothing but talk to the database.
        """
        return await self._database.write(operation)

    async def erase_from_systems(self, user_id: str) -> None:
        """Have every system erase what it keeps of a user in its own tables; safe to repeat."""
        for system in self.systems.values():
            if system.erase is not None:
                await load(system.erase, field=f"{system.name}.erase")(self, user_id)

    async def ping(self) -> None:
        """Raise StoreUnavailable where the database does not answer."""
        await self._database.ping()

    async def rotate_keys(self, *, progress: Progress = lambda done, total: None) -> RekeyResult:
        """Put every connection's credentials under the newest key; safe to stop and to repeat."""
        known = self._runtime.credentials
        vault = _vault_of(_settings()) if known is None else known.vault
        return await rekey(self._connections, vault, progress=progress)

    def supervisor(self, lanes: Sequence[Lane] = tuple(Lane)) -> Supervisor:
        """A worker on these lanes for this process; `run_until_asked` runs it."""
        sizes = self._worker_settings.lanes
        settings = msgspec.structs.replace(
            self._worker_settings, lanes={lane: sizes[lane] for lane in sizes if lane in lanes}
        )
        return Supervisor(self._runtime, settings, worker=self.name)


def _by_name(systems: Iterable[System]) -> Mapping[str, System]:
    """The systems, with their settings and syncs; two of one name are refused."""
    found: dict[str, System] = {}
    for each in systems:
        if each.name in found:
            raise InvalidInput("systems", f"two are called {each.name!r}")
        if isinstance(each.syncs, str):
            each = each.configured(public_url=_settings().site_url)
        found[each.name] = each
    return found


def _registry(systems: Iterable[System], syncs: Iterable[Sync]) -> Registry:
    declared, collections = list(syncs), list[Collection]()
    for system in systems:
        assert not isinstance(system.syncs, str), "a system in an application is configured"
        declared += system.syncs
        collections += system.collections
    return Registry(declared, collections)


def open_database(address: str, clock: Clock) -> "Database":
    """The database at an address, not yet connected."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except ArgumentError:
        raise InvalidInput(
            "database", "is not an address; write sqlite:///file.db or postgresql://host/name"
        ) from None
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise InvalidInput("database", "name a file, such as sqlite:///headgate.db")
            from headgate.store.sql.sqlite import SqliteDatabase

            return SqliteDatabase(Path(url.database), clock)
        case "postgresql":
            with _of_extra("database", "postgres"):
                from headgate.store.sql.postgres import PostgresDatabase

                # Inside: SQLAlchemy imports the driver only when it is given the address.
                return PostgresDatabase(address, clock)
            raise AssertionError("unreachable")
        case other:
            raise InvalidInput("database", f"{other} is not known; use sqlite or postgresql")


def _vault(registry: Registry) -> Vault | None:
    """With the keys in the settings, where a source has users' credentials to keep."""
    if not registry.auths:
        return None
    return _vault_of(_settings())


def _vault_of(settings: "Settings") -> Vault:
    keys = settings.key_ring()
    with _of_extra("syncs", "http"):
        from headgate.connectors.vault import AesVault
    return AesVault(keys)


def _transport(registry: Registry) -> Transport | None:
    """Over the network, where a source has an API there."""
    providers = [end for sync in registry for end in sync.ends if isinstance(end, Provider)]
    if not providers:
        return None
    ports = frozenset(port for each in providers for port in each.ports)
    rules = AddressRules(private=_settings().networks(), ports=ports | {HTTPS_PORT})
    with _of_extra("syncs", "http"):
        from headgate.connectors.aiohttp_transport import AiohttpTransport
    return AiohttpTransport(rules)


def _settings() -> "Settings":
    # An app whose sources have no API needs none.
    from pydantic import ValidationError

    from headgate.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(name, f"{first['msg']}; see HEADGATE_{name.upper()}") from None


@contextmanager
def _of_extra(field: str, extra: str) -> Iterator[None]:
    """What is imported in here is an extra: where it is missing, say what asks for it."""
    try:
        yield
    except ImportError as error:
        raise InvalidInput(field, f"{error.name} is missing: install headgate[{extra}]") from None


def _signal(database: "Database", clock: Clock, *, origin: str) -> Signal:
    from headgate.store.sql.sqlite import SqliteDatabase

    if isinstance(database, SqliteDatabase):
        from headgate.signals.sqlite import SqliteSignal

        return SqliteSignal(database.path, database.foreign_commits, clock)
    from headgate.signals.postgres import PostgresSignal
    from headgate.store.sql.postgres import PostgresDatabase

    assert isinstance(database, PostgresDatabase)
    return PostgresSignal(database.dsn, clock, origin=origin)
