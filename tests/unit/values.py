"""Values that the unit tests start from."""

from datetime import UTC, datetime
from random import Random
from typing import Any, cast

from msgspec.structs import replace

from headgate.base.clock import Clock, ManualClock
from headgate.base.ids import UlidIds
from headgate.flow.budget.gate import BudgetGate
from headgate.flow.items.fetch import ItemFetcher
from headgate.flow.registry import Registry, Sync
from headgate.flow.runtime import Runtime
from headgate.limits.memory import MemoryLimiter
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.item import Item
from headgate.model.job import Job, Lane, Mode, Reason
from headgate.model.states import ConnectionState, ItemState, JobState
from headgate.ports.connections.store import ConnectAttemptStore, ConnectionStore
from headgate.ports.database import DatabaseHealth
from headgate.ports.items import ItemStore
from headgate.ports.jobs.breakers import BreakerStore
from headgate.ports.jobs.events import EventStore
from headgate.ports.jobs.store import JobStore
from headgate.ports.people.api_keys import ApiKeyStore
from headgate.ports.people.users import UserStore
from headgate.ports.records.coverage import CoverageStore
from headgate.ports.records.receipts import ReceiptStore
from headgate.ports.records.store import RecordStore
from headgate.ports.signal import Signal
from headgate.ports.workers import WorkerStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

_JOB = Job(
    id="job_1",
    user_id="user_1",
    connection_id="connection_1",
    sync="history",
    source="fitbit",
    provider="fitbit",
    mode=Mode.FULL,
    lane=Lane.HOT,
    state=JobState.PENDING,
    reason=Reason.QUEUED,
    created_at=NOW,
    updated_at=NOW,
)

_ITEM = Item(
    id="a",
    collection="notes.attachments",
    user_id="ada",
    connection_id="conn_1",
    external_id="1",
    lane=Lane.COLD,
    start_time=NOW,
    state=ItemState.FAILED,
    created_at=NOW,
    updated_at=NOW,
)
_CONNECTION = Connection(
    id="conn_1",
    user_id="ada",
    source="notes",
    state=ConnectionState.ACTIVE,
    reason=ConnectionReason.CONNECTED,
    scopes=("read",),
    version=7,
    created_at=NOW,
    updated_at=NOW,
)


def make_job(**fields: Any) -> Job:
    """A job that was just submitted, but for `fields`."""
    return replace(_JOB, **fields)


def make_item(**fields: Any) -> Item:
    """An item that failed for good, but for `fields`."""
    return replace(_ITEM, **fields)


def make_connection(**fields: Any) -> Connection:
    """A connection that works, but for `fields`."""
    return replace(_CONNECTION, **fields)


def fetching(clock: Clock) -> ItemFetcher:
    """Fetching of items that nobody has."""
    return ItemFetcher(items=cast(ItemStore, None), clock=clock, worker="worker-1")


def gates(clock: Clock, rng: Random) -> BudgetGate:
    """Gates before a limiter in memory."""
    return BudgetGate(MemoryLimiter(clock), MemoryLimiter(clock), clock, UlidIds(clock, rng))


def runtime(recorder: object, *syncs: Sync, **more: Any) -> Runtime:
    """A process that knows these syncs, whose stores and signal are `recorder`."""
    clock, rng = ManualClock(NOW), Random(0)
    return Runtime(
        jobs=cast(JobStore, recorder),
        breakers=cast(BreakerStore, recorder),
        events=cast(EventStore, recorder),
        records=cast(RecordStore, recorder),
        receipts=cast(ReceiptStore, recorder),
        coverage=cast(CoverageStore, recorder),
        workers=cast(WorkerStore, recorder),
        database=cast(DatabaseHealth, recorder),
        connections=cast(ConnectionStore, recorder),
        attempts=cast(ConnectAttemptStore, recorder),
        users=cast(UserStore, recorder),
        api_keys=cast(ApiKeyStore, recorder),
        signal=cast(Signal, recorder),
        clock=clock,
        ids=UlidIds(clock, rng),
        rng=rng,
        gates=gates(clock, rng),
        fetching=fetching(clock),
        registry=Registry(syncs),
        **more,
    )
