"""The `Store` port on a SQL database."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from headgate.base.errors import StoreFault
from headgate.model.change import JobChange
from headgate.model.job import Job, Lane
from headgate.model.states import JobState
from headgate.ports.jobs.store import ChunkWork, JobClaimResult, NewJob, SubmitResult
from headgate.ports.jobs.submission import SubmitOutcome
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.signal import SignalHint
from headgate.store.sql import workers
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import (
    autocommit_reads,
    autocommit_reads_timed,
    autocommits_timed,
    reads,
    reads_timed,
    writes,
    writes_timed,
)
from headgate.store.sql.jobs import claims as job_claims
from headgate.store.sql.jobs import counts as job_counts
from headgate.store.sql.jobs import events as job_events
from headgate.store.sql.jobs import lists as job_lists
from headgate.store.sql.jobs import recovery, retention, settle
from headgate.store.sql.jobs import submit as jobs
from headgate.store.sql.jobs import submit_many as bulk_submit
from headgate.store.sql.jobs.claims import ClaimResult
from headgate.store.sql.jobs.settle import TABLE, Settlement
from headgate.store.sql.leases.port import SqlLeases
from headgate.store.sql.people import long_pauses, notifications, users
from headgate.store.sql.records import coverage as days
from headgate.store.sql.records import high_water as marks
from headgate.store.sql.records import pages as record_pages
from headgate.store.sql.records import receipts as sent
from headgate.store.sql.records import store as stored

#: When to claim again if a concurrent claim, which takes milliseconds, may have hidden jobs.
CROWDED_S = 0.05


class SqlStore(SqlLeases[Job, JobChange, ChunkWork]):
    """Jobs, events, records and coverage in SQLite or Postgres."""

    table = TABLE

    def __init__(
        self,
        database: Database,
        syncs: Sequence[str],
        composer: NotificationComposer | None = None,
    ) -> None:
        """Use `database`, which must be open and migrated, for an application with these syncs.

        People are told by `composer` what becomes of jobs; None: nobody is.
        """
        super().__init__(database)
        self._syncs = tuple(syncs)
        self._composer = composer

    async def submit(self, new: NewJob, hint: SignalHint | None = None) -> SubmitResult:
        submit = partial(jobs.submit, syncs=self._syncs, hint=hint)
        return await self.database.autocommit(lambda tx: submit(tx, self.database.moment(), new))

    async def submit_many(self, new: Sequence[NewJob]) -> Sequence[SubmitOutcome]:
        submit = partial(bulk_submit.submit_many, wanted=new, syncs=self._syncs)
        return await self.database.write(lambda tx: submit(tx, self.database.moment()))

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        if not self._syncs:
            return JobClaimResult([], None)
        claim = partial(job_claims.claim, syncs=self._syncs, worker=worker, lease=lease)
        claimed = await self.database.autocommit(
            lambda tx: claim(tx, self.database.moment(), lane, limit=limit)
        )
        return _claim_result(claimed, limit)

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        now = self.database.moment
        return await self.database.read(
            lambda tx: recovery.list_thawable(tx, now(), syncs=self._syncs, limit=limit)
        )

    async def next_sweep_s(self) -> float | None:
        now = self.database.moment
        return await self.database.autocommit(
            lambda tx: recovery.next_sweep_s(tx, now(), syncs=self._syncs), read_only=True
        )

    async def count_jobs(self) -> Mapping[str, Mapping[JobState, int]]:
        return await self.database.read(lambda tx: job_counts.count_jobs(tx, syncs=self._syncs))

    async def open_breakers(self) -> Mapping[str, int]:
        return await self.database.read(lambda tx: job_counts.open_breakers(tx, syncs=self._syncs))

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        now = self.database.moment
        return await self.database.read(
            lambda tx: job_counts.oldest_due_s(tx, now(), syncs=self._syncs)
        )

    def settle_in(
        self, tx: Connection, now: Moment, batch: Sequence[Settlement]
    ) -> list[Job | None]:
        """Apply the changes that are still valid, and store the work of their chunks."""
        return settle.settle(tx, now, batch, syncs=self._syncs, composer=self._composer)

    async def tell_paused(self, *, limit: int) -> int:
        composer, now = self._composer, self.database.moment
        if composer is None:
            return 0
        tell = partial(long_pauses.tell_paused, syncs=self._syncs, limit=limit)
        return await self.database.write(lambda tx: tell(tx, now(), composer))

    troubles = reads(notifications.find)

    list_jobs = reads(job_lists.find)
    list_expired = reads_timed(recovery.list_expired)
    list_waiting_probes = autocommit_reads(recovery.list_waiting_probes)
    fails_others = reads(recovery.fails_others)
    release_provider = writes_timed(recovery.release_provider)
    prune_jobs = writes_timed(retention.prune)

    events = reads(job_events.list_events)
    last_events = reads(job_events.last_events)
    prune_events = writes_timed(job_events.prune)

    records = reads(record_pages.records_of_connection)
    find_records = reads(record_pages.find)
    records_under_key = reads(record_pages.records_under_key)
    records_of = reads(stored.records_of_keys)
    record_hashes = reads(stored.hashes)
    record_data = reads(stored.data)
    high_water = reads(marks.find_mark)
    forget_records = writes(stored.forget)
    receipts = reads(sent.find)
    claim_records = writes_timed(sent.claim)

    coverage = reads(days.list_coverage)
    covered_days = reads(days.covered_days)
    gaps = reads(days.gaps)

    plan_of = reads(users.plan_of)
    plans_of = reads(users.plans_of)

    refresh_worker = autocommits_timed(workers.refresh)
    remove_worker = writes(workers.remove)
    live_workers = autocommit_reads_timed(workers.live)
    prune_workers = writes_timed(workers.prune)

    def find_fault(self) -> StoreFault | None:
        return self.database.find_fault()

    async def free_locks(self) -> int:
        return await self.database.free_locks()


def _claim_result(claimed: ClaimResult, limit: int) -> JobClaimResult:
    """The claimed jobs and, if fewer than wanted, when to claim again."""
    if len(claimed.jobs) == limit:
        return JobClaimResult(claimed.jobs, None)
    if claimed.crowded or (not claimed.jobs and claimed.wakes):
        return JobClaimResult(claimed.jobs, CROWDED_S)
    return JobClaimResult(claimed.jobs, claimed.next_due_s)
