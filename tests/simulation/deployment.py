"""A simulated deployment: worker processes that start and stop around one SQLite file.

The module owns the processes and what they share: the file, its clock and the hints. `scenario.py`
decides what goes wrong; `faulty_store.py` has the faults of a store.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import cast

import msgspec
from sqlalchemy import create_engine

from headgate.base.clock import Clock
from headgate.base.ids import Ids, UlidIds
from headgate.base.service import Service
from headgate.flow.budget.gate import BudgetGate
from headgate.flow.connections.credentials import Credentials
from headgate.flow.items.fetch import ItemFetcher
from headgate.flow.leases.claims import LeasedWork
from headgate.flow.measurements import Measurements
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.targets import Targets
from headgate.flow.registry import Registry, Sync
from headgate.flow.runtime import Runtime
from headgate.limits.memory import MemoryLimiter
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.schedule import Schedule
from headgate.ports.backend import ConnectionStores
from headgate.ports.connections.auth import AuthContext, Vault
from headgate.ports.connections.store import CredentialStore
from headgate.ports.database import DatabaseHealth
from headgate.ports.items import ItemStore
from headgate.ports.jobs.breakers import BreakerStore
from headgate.ports.jobs.events import EventStore
from headgate.ports.jobs.store import JobStore
from headgate.ports.limiter import Limiter
from headgate.ports.outbox import OutboxStore, Sender
from headgate.ports.records.coverage import CoverageStore
from headgate.ports.records.receipts import ReceiptStore
from headgate.ports.records.store import RecordStore
from headgate.ports.schedules import ScheduleStore
from headgate.ports.transport import Transport
from headgate.ports.workers import WorkerStore
from headgate.signals.local import LocalSignal
from headgate.store.sql import schema
from headgate.store.sql.budgets.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.connections.attempts import SqlConnectAttempts
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.jobs.events import SqlEvents
from headgate.store.sql.jobs.recovery import SqlBreakers
from headgate.store.sql.jobs.store import SqlJobs
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.people.api_keys import SqlApiKeys
from headgate.store.sql.people.users import SqlUsers
from headgate.store.sql.records.coverage import SqlCoverage
from headgate.store.sql.records.receipts import SqlReceipts
from headgate.store.sql.records.store import SqlRecords
from headgate.store.sql.schedules.store import SqlSchedules
from headgate.store.sql.workers import SqlWorkers
from headgate.testing.host import Host, current_host
from headgate.testing.loop import SimulationLoop
from headgate.testing.virtual_clock import VirtualClock
from tests.simulation.audit import ClaimWitness
from tests.simulation.faulty_store import FaultyStore, StoreFaults
from tests.simulation.limiter_server import LimiterClient, LimiterServer
from tests.simulation.worker_locks import WorkerLocks

START = datetime(2026, 1, 1, tzinfo=UTC)


class StoreClock:
    """The store's own clock, without the skew of any host.

    The store sleeps for zero seconds before each operation and before it returns. At these points
    the caller's process may die: before the write, or after it without knowing.
    """

    def __init__(self, loop: SimulationLoop, faults: StoreFaults) -> None:
        self._loop = loop
        self._faults = faults
        self._sleeper = VirtualClock(loop)

    def now(self) -> datetime:
        """Return the virtual time."""
        return START + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the virtual loop, or die."""
        host = current_host()
        if host is not None and self._faults.strikes(self._faults.death):
            await host.crash_here()
        await self._sleeper.sleep(seconds)


class SteppedClock(StoreClock):
    """A store's clock that somebody sets forward and back, for all processes at once."""

    def __init__(self, deployment: "Deployment") -> None:
        super().__init__(deployment.loop, deployment.faults)
        self._deployment = deployment

    def now(self) -> datetime:
        """Return the virtual time, as far off as the clock was set."""
        return super().now() + timedelta(seconds=self._deployment.clock_step_s)


class ProcessExtras(msgspec.Struct, frozen=True):
    """What a workload adds to a process: leased types and services."""

    leased: Sequence[LeasedWork] = ()
    services: Sequence[Service] = ()


class Process:
    """One incarnation of a worker process: its database, its runtime, its worker."""

    def __init__(self, deployment: "Deployment", host: Host) -> None:
        loop = deployment.loop
        self.host = host
        self._one_at_a_time = asyncio.Lock()
        self._stopped = False
        self.store_clock = StoreClock(loop, deployment.faults)
        self.database = InlineSqliteDatabase(deployment.file, self.store_clock)
        self.clock = clock = VirtualClock(loop, START)
        registry = Registry(deployment.syncs, schedules=deployment.schedules)
        self._faults = (deployment.faults, clock, deployment.witness)
        self.sql_jobs = deployment.make_jobs(self.database, registry.names)
        self.sql_receipts = SqlReceipts(self.database)
        self.sql_outbox = SqlOutbox(self.database, self.store_clock)
        # Schedules are on a connection of their own, because only their clock is set: what others
        # promise about time, they promise for a clock that runs.
        self.schedule_database = InlineSqliteDatabase(deployment.file, SteppedClock(deployment))
        self.sql_schedules = SqlSchedules(self.schedule_database)
        items = cast(ItemStore, self.faulty(SqlItems(self.database)))
        connections = cast(ConnectionStores, self.faulty(SqlConnections(self.database)))
        self.lease = lease = timedelta(seconds=deployment.worker.lease_s)
        joined = [join(self) for join in deployment.joining]
        self._services = [service for each in joined for service in each.services]
        rng = loop.random(f"process {host}")
        ids = UlidIds(clock, rng)
        measurements = Measurements(registry)
        self.runtime = Runtime(
            jobs=cast(JobStore, self.faulty(self.sql_jobs)),
            breakers=cast(BreakerStore, self.faulty(SqlBreakers(self.database, registry.names))),
            events=cast(EventStore, self.faulty(SqlEvents(self.database))),
            records=cast(RecordStore, self.faulty(SqlRecords(self.database))),
            receipts=cast(ReceiptStore, self.faulty(self.sql_receipts)),
            coverage=cast(CoverageStore, self.faulty(SqlCoverage(self.database))),
            workers=cast(WorkerStore, self.faulty(SqlWorkers(self.database))),
            database=cast(DatabaseHealth, self.faulty(self.database)),
            schedules=self._schedules(deployment),
            connections=connections,
            attempts=SqlConnectAttempts(self.database),
            users=SqlUsers(self.database),
            api_keys=SqlApiKeys(self.database),
            signal=deployment.signal,
            clock=clock,
            ids=ids,
            rng=rng,
            registry=registry,
            gates=BudgetGate(
                deployment.limiter_of(self.database), MemoryLimiter(clock), clock, ids
            ),
            fetching=ItemFetcher(
                items=items,
                clock=clock,
                worker=str(host),
                lease=lease,
                collections=registry.collections,
                measurements=measurements,
            ),
            measurements=measurements,
            targets=deployment.targets,
            drainer=self._drainer(deployment, rng, measurements),
            transport=deployment.transport,
            credentials=deployment.credentials(connections, clock, rng, ids),
            leased=[work for each in joined for work in each.leased],
        )
        self._supervisor = Supervisor(self.runtime, deployment.worker, worker=str(host))

    def _drainer(
        self, deployment: "Deployment", rng: Random, measurements: Measurements
    ) -> Drainer | None:
        if deployment.sender is None:
            return None
        return Drainer(
            store=cast(OutboxStore, self.faulty(self.sql_outbox)),
            sender=deployment.sender,
            targets=deployment.targets,
            clock=self.clock,
            rng=rng,
            worker=str(self.host),
            lease=self.lease,
            retry=deployment.worker.outbox.retry,
            measurements=measurements,
        )

    def faulty(self, store: object) -> FaultyStore:
        """Wrap a store with the faults of the run."""
        return FaultyStore(store, *self._faults)

    def _schedules(self, deployment: "Deployment") -> ScheduleStore | None:
        if not deployment.schedules:
            return None
        return cast(ScheduleStore, self.faulty(self.sql_schedules))

    async def open(self) -> None:
        """Open the database."""
        await self.database.open()
        if self.runtime.schedules is not None:
            await self.schedule_database.open()

    async def start(self) -> None:
        """Open the database and start the worker."""
        async with self._one_at_a_time:
            if self._stopped:
                return
            await self.open()
            await self._supervisor.start()
            for service in self._services:
                await service.start()

    async def stop(self) -> None:
        """Stop gracefully; like a real process, only once it has started."""
        async with self._one_at_a_time:
            self._stopped = True
            for service in self._services:
                await service.stop()
            await self._supervisor.stop()
            if self.runtime.credentials is not None:
                await self.runtime.credentials.close()
            await self.schedule_database.close()
            await self.database.close()


class Deployment:
    """The processes around one SQLite file."""

    def __init__(
        self,
        loop: SimulationLoop,
        file: Path,
        syncs: Sequence[Sync],
        *,
        worker: WorkerSettings,
        make_jobs: Callable[[InlineSqliteDatabase, Sequence[str]], SqlJobs] = SqlJobs,
        joining: Sequence[Callable[["Process"], ProcessExtras]] = (),
    ) -> None:
        self.loop = loop
        self.file = file
        self.syncs = syncs
        self.worker = worker
        self.make_jobs = make_jobs
        #: What workloads add to each process.
        self.joining = joining
        self.locks = WorkerLocks()
        self.signal = LocalSignal(self.locks)
        self.faults = StoreFaults(loop.random("store"))
        self.witness = ClaimWitness()
        #: A limiter server, if budgets are not in the file.
        self.limiter: LimiterServer | None = None
        #: Wraps a process's limiter.
        self.wrap_limiter: Callable[[Limiter], Limiter] = lambda limiter: limiter
        #: The transport to the providers, and the vault for credentials.
        self.transport: Transport | None = None
        self.vault: Vault | None = None
        #: The topics and targets of messages, and the way to them.
        self.targets = Targets()
        self.sender: Sender | None = None
        #: The schedules, and how far off their clock was set.
        self.schedules: Sequence[Schedule] = ()
        self.clock_step_s = 0.0
        self.processes: dict[str, Process] = {}

    def migrate(self) -> None:
        """Create the tables."""
        self.file.write_bytes(_migrated_file())

    def limiter_of(self, database: InlineSqliteDatabase) -> Limiter:
        """Return a process's limiter."""
        if self.limiter is None:
            return self.wrap_limiter(SqlLimiter(database))
        memory = SqlLimiterMemory(database, "server")
        return self.wrap_limiter(LimiterClient(self.limiter, memory))

    def credentials(
        self, store: CredentialStore, clock: Clock, rng: Random, ids: Ids
    ) -> Credentials | None:
        """Return a process's credentials, if there is a vault."""
        if self.transport is None or self.vault is None:
            return None
        context = AuthContext(transport=self.transport, clock=clock, rng=rng)
        return Credentials(store, self.vault, context, ids)

    def launch(self, name: str) -> Process:
        """Start a process with that name; if it has crashed, its next incarnation."""
        before = self.processes.get(name)
        host = self.loop.host(name) if before is None else before.host.restart()
        self.locks.add(host)
        process = self.processes[name] = Process(self, host)
        host.spawn(process.start(), name=f"{host} start")
        return process

    def launch_crashed(self) -> int:
        """Start crashed processes again, and return how many there were."""
        crashed = [name for name, process in self.processes.items() if process.host.crashed]
        for name in crashed:
            self.launch(name)
        return len(crashed)

    def client(self) -> Process:
        """Return a process that submits and reads jobs, but does not work, and never crashes."""
        return Process(self, self.loop.host("client"))


@cache
def _migrated_file() -> bytes:
    """Return a migrated, empty file; cached, because migrating takes longer than many runs."""
    with tempfile.TemporaryDirectory(prefix="headgate-migrated-") as folder:
        file = Path(folder) / "empty.db"
        engine = create_engine(f"sqlite:///{file}")
        with engine.begin() as tx:
            schema.upgrade(tx, now=Moment(START))
        engine.dispose()
        return file.read_bytes()
