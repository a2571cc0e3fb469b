"""The store of jobs, under the promises of `ports/leases.py`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from headgate.model.change import JobChange
from headgate.model.job import Job, Lane, Mode
from headgate.model.record import ChunkEvent, Coverage, Receipt, Record
from headgate.model.states import JobState
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitResult
from headgate.ports.leases import Leases
from headgate.ports.outbox import NewMessage
from headgate.ports.records.table import RecordTable
from headgate.ports.signal import SignalHint


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


class RowAttribute(msgspec.Struct, frozen=True):
    """A further attribute of a job's row, made of one of its fields, for others who read the row.

    Only the store on DynamoDB has them.
    """

    name: str
    field: str
    #: Makes the attribute of the field, unless that is None; a time, a day or a word as it is.
    convert: Callable[[Any], str | int] | None = None


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

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        """How long the oldest due job of each lane has waited; 0 if none waits.

        Only jobs of this application's syncs count.
        """
        ...

    async def prune_jobs(
        self, *, older_than: timedelta, limit: int, after: str | None = None
    ) -> PrunedJobs:
        """Delete jobs of all applications that ended longer ago, with their events.

        It looks at about `limit` jobs, those after the position `after`. A user's last job of each
        sync and connection stays, and the last one that succeeded.
        """
        ...
