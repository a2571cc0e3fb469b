"""The composition root: the only place that picks a clock, a database and a signal.

An `App` is what an application holds: it submits jobs, asks about them, and runs workers.
"""

import os
import random
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from headgate.base.clock import Clock, SystemClock
from headgate.base.errors import InvalidInput, NotFound
from headgate.base.ids import UlidIds, system_random
from headgate.connectors.addresses import HTTPS_PORT, AddressRules
from headgate.flow.access import ApiKeys
from headgate.flow.backfill import Backfills
from headgate.flow.connect import Connections
from headgate.flow.credentials import Credentials
from headgate.flow.fetch_item import Fetching
from headgate.flow.gate import Gates
from headgate.flow.jobs import Jobs
from headgate.flow.measurements import Measurements
from headgate.flow.plans import set_plan
from headgate.flow.registry import Registry, Sync, has_api
from headgate.flow.rekey import Progress, Rekeyed, rekey
from headgate.flow.runtime import Runtime
from headgate.limits.memory import MemoryLimiter
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.budget import BudgetUse
from headgate.model.job import Lane
from headgate.model.record import CoverageRow, Record
from headgate.policy.entitlement import Entitlement
from headgate.ports.auth import Surroundings, Vault
from headgate.ports.limiter import Limiter
from headgate.ports.signal import Signal
from headgate.ports.transport import Transport

# SQLAlchemy and the settings take longer to load than all the rest together: whoever needs them
# imports them where they are used.
if TYPE_CHECKING:
    from headgate.settings import Settings
    from headgate.store.sql.database import Database


class App:
    """Headgate on one database, with the syncs that an application declares."""

    def __init__(
        self,
        database: "str | Database" = "sqlite:///headgate.db",
        *,
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
        self._rng = rng or system_random()
        self._ids = UlidIds(self.clock, self._rng)
        self._worker_settings = worker or WorkerSettings()
        #: Names this process wherever it holds something.
        self.name = self._ids.new(f"{socket.gethostname()}-{os.getpid()}")
        self.database = (
            open_database(database, self.clock) if isinstance(database, str) else database
        )
        registry = Registry(syncs)
        self.store = SqlStore(self.database, registry.names)
        self.items = SqlItems(self.database)
        self._connections = SqlConnections(self.database)
        self._attempts = SqlConnectAttempts(self.database)
        self._api_keys = SqlApiKeys(self.database)
        self.limiter: Limiter = SqlLimiter(self.database)
        if redis is not None:
            with _of_extra("redis", "redis"):
                from headgate.limits.redis import RedisLimiter
            memory = SqlLimiterMemory(self.database, "redis")
            self.limiter = RedisLimiter(redis, memory, self.clock, self._ids)
        #: Why it cannot be opened.
        self._unready: InvalidInput | None = None
        #: The transport that is ours to close.
        self._own_transport: Transport | None = None
        try:
            vault = vault or _vault(registry)
            transport = transport or self._open_transport(registry)
        except InvalidInput as error:
            self._unready = error
        measurements = Measurements(registry)
        self.runtime = Runtime(
            store=self.store,
            signal=signal or _signal(self.database, self.clock, origin=self.name),
            clock=self.clock,
            ids=self._ids,
            rng=self._rng,
            registry=registry,
            gates=Gates(self.limiter, MemoryLimiter(self.clock), self.clock, self._ids),
            fetching=Fetching(
                items=self.items,
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
        around = Surroundings(transport=transport, clock=self.clock, rng=self._rng)
        return Credentials(self._connections, vault, around, self._ids)

    async def open(self) -> None:
        """Connect, bring an embedded database up to date, begin to listen.

        Refuses to, where sources need keys and there are none, or none that are any good.
        """
        from headgate.store.sql import schema

        if self._unready is not None:
            raise self._unready
        await self.database.open()
        await schema.prepare(self.database)
        await self.runtime.signal.start()

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""
        await self.runtime.signal.stop()
        if self.runtime.credentials is not None:
            await self.runtime.credentials.close()
        if self._own_transport is not None:
            await self._own_transport.close()
        await self.limiter.close()
        await self.database.close()

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
        return Jobs(self.runtime)

    async def coverage(
        self, sync: str, connection_id: str, *, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """What is known of each day; a day without a row is missing."""
        return await self.store.coverage(sync, connection_id, start, end)

    async def records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int = 200
    ) -> Sequence[Record]:
        """Records that Headgate keeps for a connection, in the order of their keys."""
        return await self.store.records(sync, connection_id, after=after, limit=limit)

    async def budgets(
        self, source: str | None = None, *, connection_id: str | None = None
    ) -> Sequence[BudgetUse]:
        """How the declared budgets stand; with a connection, what is counted for it too."""
        declared = self.runtime.registry.budgets
        if source is not None and source not in declared:
            there_are = ", ".join(sorted(declared)) or "none"
            raise NotFound(f"no budget is declared for {source!r}; there are: {there_are}")
        wanted = [declared[source]] if source is not None else declared.values()
        return [await self.limiter.use(each, connection_id=connection_id) for each in wanted]

    @property
    def api_keys(self) -> ApiKeys:
        """Who may call the HTTP API."""
        return ApiKeys(self._api_keys, self.runtime)

    @property
    def backfills(self) -> Backfills:
        """Imports of a user's past: forecasting, starting and following them."""
        return Backfills(self.runtime, self._connections)

    async def set_plan(self, user_id: str, plan: str) -> None:
        """Note which plan a user has; `entitlement` says what it includes."""
        await set_plan(self.runtime, user_id, plan)

    @property
    def connections(self) -> Connections:
        """Users' connections to providers: making, pausing, removing them."""
        rt = self.runtime
        if rt.credentials is None:
            raise InvalidInput("syncs", "none of their sources has an `auth` to connect by")
        return Connections(
            self._connections, self._attempts, rt.credentials, rt.registry, self.items
        )

    async def rotate_keys(self, *, progress: Progress = lambda done, total: None) -> Rekeyed:
        """Put every connection's credentials under the newest key; safe to stop and to repeat."""
        known = self.runtime.credentials
        vault = _vault_of(_settings()) if known is None else known.vault
        return await rekey(self._connections, vault, progress=progress)

    def supervisor(self, lanes: Sequence[Lane] = tuple(Lane)) -> Supervisor:
        """A worker on these lanes for this process; `run_until_asked` runs it."""
        sizes = self._worker_settings.lanes
        settings = msgspec.structs.replace(
            self._worker_settings, lanes={lane: sizes[lane] for lane in sizes if lane in lanes}
        )
        return Supervisor(self.runtime, settings, worker=self.name)


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
    ends = [end for sync in registry for end in sync.ends if has_api(end)]
    if not ends:
        return None
    ports = frozenset(port for each in ends for port in getattr(each, "ports", ()))
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
