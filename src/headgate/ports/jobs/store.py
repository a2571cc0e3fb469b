"""The stores of jobs, events, records, coverage, plans and workers, as the engine uses them.

Every method is one atomic, durable operation, under the promises of `ports/leases.py`.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.base.errors import StoreFault
from headgate.model.change import JobChange
from headgate.model.job import Job, JobEvent, JobParams, Lane, Mode, Progress, Summary
from headgate.model.record import (
    ChunkEvent,
    Coverage,
    CoverageRow,
    Receipt,
    Record,
    RecordRow,
    StoredRecord,
)
from headgate.model.states import JobState, ReceiptState
from headgate.model.worker import Abilities, Worker
from headgate.ports.jobs.submission import SubmitOutcome
from headgate.ports.leases import Leases
from headgate.ports.outbox import NewMessage
from headgate.ports.people.notifications import NotificationStore
from headgate.ports.people.users import PlanStore
from headgate.ports.records.table import RecordTable
from headgate.ports.signal import SignalHint


class NewJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job to store, validated and complete."""

    id: str
    user_id: str
    connection_id: str
    sync: str
    source: str
    destination: str | None = None
    destination_connection_id: str | None = None
    mode: Mode
    lane: Lane
    key: str | None
    #: A hash of the whole request, to refuse the same key with another request.
    request_hash: str
    params: JobParams
    start_date: date | None
    end_date: date | None
    cursor: Json
    progress: Progress
    delay: timedelta
    #: Of the job that it continues.
    high_water: Json = None
    summary: Summary = Summary()


class SubmitResult(msgspec.Struct, frozen=True):
    """The job for a request, and whether this request created it."""

    job: Job
    created: bool


class JobClaimResult(msgspec.Struct, frozen=True, gc=False):
    """The jobs that were claimed and, if fewer than wanted, when to claim again."""

    jobs: Sequence[Job]
    #: Seconds until the next job of the lane is due; None if none is waiting.
    next_due_s: float | None


class ChunkWork(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a chunk brings: records, coverage, events, messages; stored with the job's change."""

    #: The name that records and receipts are stored under; None: the sync's own.
    stored_as: str | None = None
    records: Sequence[Record] = ()
    #: The keys of records to delete; one that is stored by the same chunk stays.
    removed: Sequence[str] = ()
    #: The system's own table, and the records for it.
    table: RecordTable | None = None
    table_records: Sequence[Record] = ()
    #: What the destination has made of the records, if each is delivered once.
    receipts: Sequence[Receipt] = ()
    coverage: Coverage | None = None
    #: Written in this order, before the event of the change.
    events: Sequence[ChunkEvent] = ()
    messages: Sequence[NewMessage] = ()


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; a field that is None or empty matches any job."""

    user_id: str | None = None
    sync: str | None = None
    connection_id: str | None = None
    mode: Mode | None = None
    states: tuple[JobState, ...] = ()


class PrunedJobs(msgspec.Struct, frozen=True, gc=False):
    """How many old jobs were deleted, and where to go on; None: all have been looked at."""

    count: int
    after: str | None


class JobStore(Leases[Job, JobChange, ChunkWork], Protocol):
    """Jobs."""

    async def submit(self, new: NewJob, hint: SignalHint | None = None) -> SubmitResult:
        """Store a job, once per key, and send the hint with it if the job is created.

        Raises ActiveJobExists if the sync has an active job for the connection, and KeyReused if
        the key was used for another request.
        """
        ...

    async def submit_many(self, new: Sequence[NewJob]) -> Sequence[SubmitOutcome]:
        """Store jobs as one `submit` after another would; the outcomes are in the same order.

        A request may meet one that comes before it, by its key or by its sync and connection. Of a
        user's jobs that are due, each takes the turn after the one before. A key that was used for
        another request is REFUSED, with KeyReused; nothing is raised because of one request.

        It is one transaction, unless a store cannot have one so large. Then, after an error, some
        of the jobs may be stored: a request with a key may be repeated.
        """
        ...

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        """Claim up to `limit` due jobs of the lane and of this application's syncs.

        Users take turns. No other worker gets the same jobs.
        """
        ...

    async def list_jobs(
        self, job_filter: JobFilter, *, limit: int, before: str | None = None
    ) -> Sequence[Job]:
        """Jobs, newest first, older than the id `before`."""
        ...

    async def count_jobs(self) -> Mapping[str, Mapping[JobState, int]]:
        """How many jobs of each of this application's syncs are in each state, zero included."""
        ...

    async def open_breakers(self) -> Mapping[str, int]:
        """How many jobs of this application's syncs the breaker has paused, by provider."""
        ...

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        """How long the oldest due job of each lane has waited; 0 if none waits.

        Only jobs of this application's syncs count.
        """
        ...

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        """Paused jobs of this application's syncs that may go on.

        These are recovering jobs that are due, and one job as the probe of each provider whose
        breaker is open and that has no probe.
        """
        ...

    async def list_waiting_probes(self) -> Sequence[Job]:
        """Probes of all applications that wait for a worker."""
        ...

    async def fails_others(self, job: Job, provider: str, *, pauses_below: int) -> bool:
        """Whether jobs of other users are paused because of the provider, less often than so."""
        ...

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """Resume the paused jobs of a provider that has recovered, one every `stagger`."""
        ...

    async def prune_jobs(
        self, *, older_than: timedelta, limit: int, after: str | None = None
    ) -> PrunedJobs:
        """Delete jobs of all applications that ended longer ago, with their events.

        It looks at about `limit` jobs, those after the position `after`. A user's last job of each
        sync and connection stays, and the last one that succeeded.
        """
        ...


class LastEvent(msgspec.Struct, frozen=True, gc=False):
    """How far a job is: the id of its last event, 0 if it has none, and its state."""

    id: int
    state: JobState


class EventStore(Protocol):
    """The events of jobs."""

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """A job's events in order, after the id `after`."""
        ...

    async def last_events(self, job_ids: Sequence[str]) -> Mapping[str, LastEvent]:
        """How far each of these jobs is, by its id; a job that is not stored is left out."""
        ...

    async def prune_events(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old events, at most `limit` of the oldest; returns how many."""
        ...


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a sync to list; a field that is None matches any record."""

    #: The name that the records are stored under.
    sync: str
    user_id: str | None = None
    connection_id: str | None = None
    key_prefix: str | None = None
    #: Records that were stored or changed at this time or later, and before that time.
    since: datetime | None = None
    until: datetime | None = None


class RecordPosition(msgspec.Struct, frozen=True):
    """A place in the order of records: after this key of a connection, or at its beginning."""

    connection_id: str
    key: str | None


class RecordRows(msgspec.Struct, frozen=True):
    """Records, and where to go on; None: there are no more.

    If a filter matches few, there may be fewer than wanted, or none, although there are more.
    """

    rows: Sequence[RecordRow]
    after: RecordPosition | None


class RecordStore(Protocol):
    """Records in Headgate's own database."""

    async def find_records(
        self, which: RecordFilter, *, after: RecordPosition | None = None, limit: int
    ) -> RecordRows:
        """Records in the order of their connections and keys, after that position."""
        ...

    async def records_under_key(
        self, which: RecordFilter, key: str, *, limit: int
    ) -> Sequence[RecordRow]:
        """The records of different connections under this key, of the filter's sync and user."""
        ...

    async def records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int
    ) -> Sequence[Record]:
        """Records of a connection in the order of their keys, after the key `after`."""
        ...

    async def records_of(
        self, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
    ) -> Sequence[StoredRecord]:
        """Records of these syncs and connections under these keys."""
        ...

    async def record_hashes(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, str]:
        """The content hashes of the stored records under these keys; any number of keys."""
        ...

    async def record_data(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, JsonObject]:
        """The data of the stored records under these keys; any number of keys."""
        ...

    async def high_water(self, sync: str, connection_id: str) -> Json:
        """The high-water mark of the sync for the connection; None if none is stored."""
        ...

    async def forget_records(
        self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
    ) -> int:
        """Delete a connection's records under these keys; returns how many there were."""
        ...


class ReceiptStore(Protocol):
    """What destinations have made of records, by the name that the records are stored under."""

    async def receipts(
        self, job: Job, stored_as: str, keys: Sequence[str]
    ) -> Mapping[str, ReceiptState]:
        """The states of these records at the job's destination.

        CLAIMED is one that another job is sending now; one that was never sent is left out.
        """
        ...

    async def claim_records(
        self, job: Job, stored_as: str, keys: Sequence[str]
    ) -> Mapping[str, ReceiptState]:
        """Claim these records for the job's present chunk, until it is settled.

        Returns the states of those that the job did not get: TAKEN or CLAIMED by another job.
        """
        ...


class CoverageStore(Protocol):
    """The coverage of the days of a connection's history."""

    async def coverage(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """The coverage of the days from `start` to `end`, both included, in order."""
        ...

    async def covered_days(self, new: Sequence[NewJob]) -> Sequence[Sequence[CoverageRow]]:
        """For each new job, the coverage of its days whose records went to the same destination."""
        ...

    async def gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that failed or are incomplete, the newest first."""
        ...


class WorkerStore(Protocol):
    """Worker processes."""

    async def refresh_worker(
        self, worker_id: str, abilities: Abilities, *, term: timedelta
    ) -> None:
        """Store that the worker is alive and what it can run; after `term` it counts as gone."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """Delete the row of a worker that has stopped."""
        ...

    async def live_workers(self) -> Sequence[Worker]:
        """The workers that count as alive."""
        ...

    async def prune_workers(self) -> int:
        """Delete the rows of workers that are gone; returns how many."""
        ...


class Store(
    JobStore,
    EventStore,
    RecordStore,
    ReceiptStore,
    CoverageStore,
    PlanStore,
    WorkerStore,
    NotificationStore,
    Protocol,
):
    """Everything that the engine stores for jobs."""

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the database's disk or file, as far as this process knows."""
        ...

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering; returns how many."""
        ...
