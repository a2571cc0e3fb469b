"""What the engine asks of a store for jobs and what they bring; a port for each noun.

Every method is one atomic, durable operation, under the promises of `ports/leases.py`.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.change import JobChange
from headgate.model.job import Job, JobEvent, Lane, Mode, Progress
from headgate.model.record import ChunkEvent, Coverage, CoverageRow, Record, StoredRecord
from headgate.model.states import JobState
from headgate.model.worker import Abilities, Worker
from headgate.ports.leases import Leases


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be stored, checked and complete."""

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
    #: Hash of the whole request: the same key with another request is refused.
    request_hash: str
    params: JsonObject
    start_date: date | None
    end_date: date | None
    cursor: Json
    progress: Progress
    delay: timedelta


class SubmitResult(msgspec.Struct, frozen=True):
    """The job that stands for a request, and whether this request made it."""

    job: Job
    created: bool


class JobClaimResult(msgspec.Struct, frozen=True, gc=False):
    """The jobs a worker got, and, where there were fewer than it wanted, when to look again."""

    jobs: Sequence[Job]
    #: Seconds until the next job of the lane is due; None when none is waiting.
    next_due_s: float | None


class ChunkWork(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a chunk brought, to be stored together with the change that ends it."""

    records: Sequence[Record] = ()
    coverage: Coverage | None = None
    #: Told in this order, and before the change's own event.
    events: Sequence[ChunkEvent] = ()


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; None means any."""

    user_id: str | None = None
    sync: str | None = None
    connection_id: str | None = None
    mode: Mode | None = None
    states: tuple[JobState, ...] = ()


class JobStore(Leases[Job, JobChange, ChunkWork], Protocol):
    """Jobs."""

    async def submit(self, new: NewJob) -> SubmitResult:
        """Store a job, once per key.

        Raises ActiveJobExists where the sync has an active job for the connection, and KeyReused
        where the key stands for another request.
        """
        ...

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        """Take up to `limit` due jobs of the lane and of this application's syncs.

        Fairly across users; nobody else gets them.
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
        """For how long the oldest due job of each lane has waited; 0 where none waits.

        Of this application's syncs alone.
        """
        ...

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        """Paused jobs of this application's syncs that may go on.

        Recovering ones, and one probe for each provider that is shut and has none.
        """
        ...

    async def list_waiting_probes(self) -> Sequence[Job]:
        """Probes of any application that no worker has."""
        ...

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """The provider answers again: let its paused jobs go, one after another."""
        ...


class EventStore(Protocol):
    """What happened to each job."""

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """A job's events in order, those after the id `after`."""
        ...

    async def pace(self, job_id: str, *, limit: int) -> Sequence[datetime]:
        """When the job's last chunks were done, the latest first."""
        ...

    async def prune_events(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old events, at most `limit` of the oldest; returns how many."""
        ...


class RecordStore(Protocol):
    """Records that are kept here."""

    async def records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int
    ) -> Sequence[Record]:
        """Records of a connection, in the order of their keys, those after the key `after`."""
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

    async def high_water(self, sync: str, connection_id: str) -> Json:
        """How far the sync has read for the connection; None where no mark is stored."""
        ...

    async def forget_records(
        self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
    ) -> int:
        """Delete a connection's records under these keys; how many there were."""
        ...


class CoverageStore(Protocol):
    """What is known of each day of a connection's history."""

    async def coverage(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """What is known of each day from `start` to `end`, both included, in order."""
        ...

    async def covered_days(self, new: NewJob) -> Sequence[CoverageRow]:
        """The same for the days of a job to be, as far as they went to the same destination."""
        ...

    async def gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that something is wrong with, the newest first."""
        ...


class UserStore(Protocol):
    """What is known of users besides their connections."""

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None where none was set."""
        ...

    async def set_plan(self, user_id: str, plan: str) -> None:
        """Note which plan the user has."""
        ...


class WorkerStore(Protocol):
    """Worker processes."""

    async def refresh_worker(
        self, worker_id: str, abilities: Abilities, *, term: timedelta
    ) -> None:
        """Note that the worker lives and what it can run; without another word it is gone after."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """The worker has stopped."""
        ...

    async def live_workers(self) -> Sequence[Worker]:
        """The workers that live, as far as is known."""
        ...

    async def prune_workers(self) -> int:
        """Forget those that are gone; how many."""
        ...


class Store(JobStore, EventStore, RecordStore, CoverageStore, UserStore, WorkerStore, Protocol):
    """All that a job needs a store for."""

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering; returns how many."""
        ...
