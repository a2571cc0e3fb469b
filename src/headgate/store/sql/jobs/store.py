"""The `JobStore` port on a SQL database."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from headgate.model.change import JobChange
from headgate.model.job import Job, Lane
from headgate.model.states import JobState
from headgate.ports.jobs.store import ChunkWork, JobClaimResult
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitResult
from headgate.ports.people.notifications import NotificationComposer
from headgate.ports.signal import SignalHint
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import reads, reads_timed, writes_timed
from headgate.store.sql.jobs import (
    claims,
    counts,
    lists,
    recovery,
    retention,
    settle,
    submit,
    submit_many,
)
from headgate.store.sql.jobs.claims import ClaimResult
from headgate.store.sql.jobs.settle import TABLE, Settlement
from headgate.store.sql.leases.port import SqlLeases

#: When to claim again if a concurrent claim, which takes milliseconds, may have hidden jobs.
CROWDED_S = 0.05


class SqlJobs(SqlLeases[Job, JobChange, ChunkWork]):
    """Jobs in SQLite or Postgres."""

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
        store = partial(submit.submit, syncs=self._syncs, hint=hint)
        return await self.database.autocommit(lambda tx: store(tx, self.database.moment(), new))

    async def submit_many(self, new: Sequence[NewJob]) -> Sequence[SubmitOutcome]:
        store = partial(submit_many.submit_many, wanted=new, syncs=self._syncs)
        return await self.database.write(lambda tx: store(tx, self.database.moment()))

    async def claim(
        self, lane: Lane, *, worker: str, limit: int, lease: timedelta
    ) -> JobClaimResult:
        if not self._syncs:
            return JobClaimResult([], None)
        claim = partial(claims.claim, syncs=self._syncs, worker=worker, lease=lease)
        claimed = await self.database.autocommit(
            lambda tx: claim(tx, self.database.moment(), lane, limit=limit)
        )
        return _claim_result(claimed, limit)

    def settle_in(
        self, tx: Connection, now: Moment, batch: Sequence[Settlement]
    ) -> list[Job | None]:
        """Apply the changes that are still valid, and store the work of their chunks."""
        return settle.settle(tx, now, batch, syncs=self._syncs, composer=self._composer)

    async def next_sweep_s(self) -> float | None:
        now = self.database.moment
        return await self.database.autocommit(
            lambda tx: recovery.next_sweep_s(tx, now(), syncs=self._syncs), read_only=True
        )

    async def count_jobs(self) -> Mapping[str, Mapping[JobState, int]]:
        return await self.database.read(lambda tx: counts.count_jobs(tx, syncs=self._syncs))

    async def oldest_due_s(self) -> Mapping[Lane, float]:
        now = self.database.moment
        return await self.database.read(
            lambda tx: counts.oldest_due_s(tx, now(), syncs=self._syncs)
        )

    list_jobs = reads(lists.list_jobs)
    list_expired = reads_timed(recovery.list_expired)
    prune_jobs = writes_timed(retention.prune_jobs)


def _claim_result(claimed: ClaimResult, limit: int) -> JobClaimResult:
    """The claimed jobs and, if fewer than wanted, when to claim again."""
    if len(claimed.jobs) == limit:
        return JobClaimResult(claimed.jobs, None)
    if claimed.crowded or (not claimed.jobs and claimed.wakes):
        return JobClaimResult(claimed.jobs, CROWDED_S)
    return JobClaimResult(claimed.jobs, claimed.next_due_s)
