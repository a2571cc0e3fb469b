"""The runtime: everything that the use cases need, put together once by the composition root."""

import random
from collections.abc import Sequence

import msgspec

from headgate.base.clock import Clock
from headgate.base.ids import Ids
from headgate.flow.budget.gate import BudgetGate
from headgate.flow.connections.credentials import Credentials
from headgate.flow.items.fetch import ItemFetcher
from headgate.flow.leases.claims import LeasedWork
from headgate.flow.measurements import Measurements
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.targets import Targets
from headgate.flow.registry import Registry
from headgate.flow.step.check_chunk import ChunkLimits
from headgate.policy.entitlement import Entitlement
from headgate.ports.connections.store import ConnectAttemptStore, ConnectionStore
from headgate.ports.database import DatabaseHealth
from headgate.ports.items import ItemStore
from headgate.ports.jobs.breakers import BreakerStore
from headgate.ports.jobs.events import EventStore
from headgate.ports.jobs.store import JobStore
from headgate.ports.people.api_keys import ApiKeyStore
from headgate.ports.people.erasures import ErasureStore
from headgate.ports.people.notifications import NotificationStore
from headgate.ports.people.system_data import SystemData
from headgate.ports.people.users import UserStore
from headgate.ports.records.coverage import CoverageStore
from headgate.ports.records.receipts import ReceiptStore
from headgate.ports.records.store import RecordStore
from headgate.ports.schedules import ScheduleStore
from headgate.ports.signal import Signal
from headgate.ports.transport import Transport
from headgate.ports.workers import WorkerStore

#: The stores that a database has under the same names.
STORES = (
    *("events", "records", "receipts", "coverage", "workers", "connections", "attempts"),
    *("users", "api_keys", "erasures", "schedules"),
)


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies of the engine; nothing in `flow` uses any other."""

    jobs: JobStore
    breakers: BreakerStore
    events: EventStore
    records: RecordStore
    receipts: ReceiptStore
    coverage: CoverageStore
    workers: WorkerStore
    database: DatabaseHealth
    connections: ConnectionStore
    #: The attempts to connect that wait for the user's return.
    attempts: ConnectAttemptStore
    users: UserStore
    api_keys: ApiKeyStore
    signal: Signal
    clock: Clock
    ids: Ids
    rng: random.Random
    registry: Registry
    gates: BudgetGate
    chunk_limits: ChunkLimits = ChunkLimits()
    #: The measurements of this process; the default knows no sync, and so measures none.
    measurements: Measurements = msgspec.field(default_factory=Measurements)
    #: The topics and targets of messages.
    targets: Targets = msgspec.field(default_factory=Targets)
    #: Sends the deliveries of the outbox; None if no target is configured.
    drainer: Drainer | None = None
    #: Fetches items; None if the database has none.
    fetching: ItemFetcher | None = None
    #: The schedules and their ticks; None if nothing is scheduled here.
    schedules: ScheduleStore | None = None
    #: What people were told, with the changes of jobs; None if nobody is told anything.
    notifications: NotificationStore | None = None
    #: Leased types besides jobs, items and deliveries.
    leased: Sequence[LeasedWork] = ()
    #: The HTTP transport and the credentials of connections; None if no source has an API.
    transport: Transport | None = None
    credentials: Credentials | None = None
    #: What each plan includes; None: every plan includes everything.
    entitlement: Entitlement | None = None
    #: Erasures of users, and what systems keep of them; None: nothing here can be erased.
    erasures: ErasureStore | None = None
    system_data: SystemData | None = None

    @property
    def items(self) -> ItemStore | None:
        """The items; None if the database has none."""
        return None if self.fetching is None else self.fetching.items
