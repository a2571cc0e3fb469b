"""What the engine asks of a store. Every method is one atomic, durable operation.

Times are the store's own: a wait is given as a duration, a lease is judged where it is kept. A
method that raises `StoreUnavailable` may or may not have taken effect; calling it again with the
same arguments is safe, because every write is fenced.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Protocol

import msgspec

from headgate.base.encoding import Json, JsonObject
from headgate.model.change import Change
from headgate.model.job import Job, JobEvent, Lane, Mode, Progress
from headgate.model.record import ChunkEvent, Coverage, CoverageRow, Record
from headgate.model.states import JobState


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


class Submitted(msgspec.Struct, frozen=True):
    """The job that stands for a request, and whether this request made it."""

    job: Job
    created: bool


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """The jobs a worker got, and, where there were fewer than it wanted, when to look again."""

    jobs: Sequence[Job]
    #: Seconds until the next job of the lane is due; None when none is waiting.
    next_due_s: float | None


class Held(msgspec.Struct, frozen=True, gc=False):
    """A claim: this job, under this token."""

    job_id: str
    token: int


class Work(msgspec.Struct, frozen=True, gc=False, kw_only=True):
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


class Store(Protocol):
    """Jobs, events, records and coverage."""

    async def submit(self, new: NewJob) -> Submitted:
        """Store a job, once per key.

        Raises ActiveJobExists where the sync has an active job for the connection, and KeyReused
        where the key stands for another request.
        """
        ...

    async def claim(self, lane: Lane, *, worker: str, limit: int, lease: timedelta) -> Claimed:
        """Take up to `limit` due jobs of the lane, fairly across users; nobody else gets them."""
        ...

    async def settle(self, change: Change, work: Work | None = None) -> Job | None:
        """Apply a change and store what the chunk brought, in one transaction.

        Returns the job as it became, or None where the claim was lost and nothing was written.
        """
        ...

    async def heartbeat(self, held: Sequence[Held], *, lease: timedelta) -> dict[str, JobState]:
        """Extend the leases that are still held; returns the state of each job still held."""
        ...

    async def sweep(self, changes: Sequence[Change]) -> int:
        """Apply a sweeper's changes together; returns how many took effect."""
        ...

    async def get(self, job_id: str, *, user_id: str | None = None) -> Job:
        """The job; NotFound where there is none, or it is not that user's."""
        ...

    async def list_jobs(
        self, wanted: JobFilter, *, limit: int, before: str | None = None
    ) -> Sequence[Job]:
        """Jobs, newest first, older than the id `before`."""
        ...

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """A job's events in order, those after the id `after`."""
        ...

    async def coverage(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """What is known of each day from `start` to `end`, both included, in order."""
        ...

    async def record_hashes(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, str]:
        """The content hashes of the stored records under these keys; any number of keys."""
        ...

    async def brought(self, new: NewJob) -> Sequence[CoverageRow]:
        """The same for the days of a job to be, as far as they went to the same destination."""
        ...

    async def gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that something is wrong with, the newest first."""
        ...

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None where none was set."""
        ...

    async def set_plan(self, user_id: str, plan: str) -> None:
        """Note which plan the user has."""
        ...

    async def pace(self, job_id: str, *, limit: int) -> Sequence[datetime]:
        """When the job's last chunks were done, the latest first."""
        ...

    async def expired(self, *, limit: int) -> Sequence[Job]:
        """Jobs whose lease has run out, and cancelling ones past their deadline."""
        ...

    async def thawable(self, *, limit: int) -> Sequence[Job]:
        """Paused jobs that may go on: recovering ones, and one probe for each shut provider."""
        ...

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """The provider answers again: let its paused jobs go, one after another."""
        ...

    async def prune_events(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old events, at most `limit` of the oldest; returns how many."""
        ...

    async def next_sweep_s(self) -> float | None:
        """Seconds until a lease, a deadline or a cool-down ends; None when nothing is pending."""
        ...

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering; returns how many."""
        ...
