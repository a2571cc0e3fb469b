"""The `Store` port on a SQL database: each method is one transaction around plain functions."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import TypeVar

from sqlalchemy import Connection

from headgate.base.coalesce import Coalescer
from headgate.base.errors import StoreUnavailable
from headgate.model.change import Change
from headgate.model.job import Job, JobEvent, Lane
from headgate.model.record import CoverageRow, KeptRecord, Record
from headgate.model.states import JobState
from headgate.ports.store import Claimed, Held, JobFilter, NewJob, Submitted, Work
from headgate.store.sql import coverage, events, jobs, records, recovery, users
from headgate.store.sql.database import Database, Operation
from headgate.store.sql.moment import Moment
from headgate.store.sql.settle import Settlement, settle

T = TypeVar("T")


class SqlStore:
    """Jobs, events, records and coverage in SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which must be open and migrated."""
        self.database = database
        self._settling = Coalescer[Settlement, Job | None](
            self._settle_batch, in_flight_max=database.writes_at_once
        )

    def _timed(self, operation: Callable[[Connection, Moment], T]) -> Operation[T]:
        """Give the operation the store's time, read when it runs and not when it was queued."""
        return lambda tx: operation(tx, self.database.moment())

    async def submit(self, new: NewJob) -> Submitted:
        """Store a job, once per key."""
        return await self.database.write(self._timed(lambda tx, now: jobs.submit(tx, now, new)))

    async def claim(self, lane: Lane, *, worker: str, limit: int, lease: timedelta) -> Claimed:
        """Take up to `limit` due jobs of the lane."""

        def operation(tx: Connection, now: Moment) -> Claimed:
            return jobs.claim(tx, now, lane, worker=worker, limit=limit, lease=lease)

        return await self.database.write(self._timed(operation))

    async def settle(self, change: Change, work: Work | None = None) -> Job | None:
        """Apply a change; those that come together are written together."""
        return await self._settling.submit((change, work))

    async def _settle_batch(self, batch: list[Settlement]) -> list[Job | Exception | None]:
        try:
            return list(await self._settle(batch))
        except StoreUnavailable:
            raise
        except Exception:
            # One of them is at fault. Nothing was written: try each alone, so that only it fails.
            return [await self._settle_alone(each) for each in batch]

    async def _settle_alone(self, settlement: Settlement) -> Job | Exception | None:
        try:
            [job] = await self._settle([settlement])
        except Exception as error:
            return error
        return job

    async def _settle(self, batch: list[Settlement]) -> list[Job | None]:
        return await self.database.write(self._timed(lambda tx, now: settle(tx, now, batch)))

    async def heartbeat(self, held: Sequence[Held], *, lease: timedelta) -> dict[str, JobState]:
        """Extend the leases that are still held."""
        return await self.database.write(
            self._timed(lambda tx, now: jobs.heartbeat(tx, now, held, lease=lease))
        )

    async def sweep(self, changes: Sequence[Change]) -> int:
        """Apply a sweeper's changes in one transaction."""

        def operation(tx: Connection, now: Moment) -> int:
            applied = settle(tx, now, [(change, None) for change in changes])
            return sum(job is not None for job in applied)

        return await self.database.write(self._timed(operation))

    async def get(self, job_id: str, *, user_id: str | None = None) -> Job:
        """The job, if it is there and the user's."""
        return await self.database.read(lambda tx: jobs.get(tx, job_id, user_id=user_id))

    async def list_jobs(
        self, wanted: JobFilter, *, limit: int, before: str | None = None
    ) -> Sequence[Job]:
        """Jobs, newest first."""
        return await self.database.read(
            lambda tx: jobs.find(tx, wanted, limit=limit, before=before)
        )

    async def events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """A job's events in order."""
        return await self.database.read(
            lambda tx: events.of_job(tx, job_id, after=after, limit=limit)
        )

    async def coverage(
        self, sync: str, connection_id: str, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """What is known of each day."""
        return await self.database.read(
            lambda tx: coverage.of_days(tx, sync, connection_id, start, end)
        )

    async def records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int
    ) -> Sequence[Record]:
        """Records held for a connection, in the order of their keys."""
        return await self.database.read(
            lambda tx: records.of_connection(tx, sync, connection_id, after=after, limit=limit)
        )

    async def record_hashes(
        self, sync: str, connection_id: str, keys: Sequence[str]
    ) -> dict[str, str]:
        """The content hashes of the stored records under these keys."""
        return await self.database.read(lambda tx: records.hashes(tx, sync, connection_id, keys))

    async def brought(self, new: NewJob) -> Sequence[CoverageRow]:
        """What is known of the days of a job to be."""
        return await self.database.read(lambda tx: coverage.brought(tx, new))

    async def gaps(
        self, job_id: str, sync: str, connection_id: str, *, limit: int
    ) -> Sequence[CoverageRow]:
        """Days of the job that something is wrong with."""
        return await self.database.read(
            lambda tx: coverage.gaps(tx, job_id, sync, connection_id, limit=limit)
        )

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan, if one was set."""
        return await self.database.read(lambda tx: users.plan_of(tx, user_id))

    async def set_plan(self, user_id: str, plan: str) -> None:
        """Note which plan the user has."""
        await self.database.write(
            self._timed(lambda tx, now: users.set_plan(tx, now, user_id, plan))
        )

    async def pace(self, job_id: str, *, limit: int) -> Sequence[datetime]:
        """When the job's last chunks were done."""
        return await self.database.read(lambda tx: events.pace(tx, job_id, limit=limit))

    async def records_of(
        self, syncs: Sequence[str], connection_ids: Sequence[str], keys: Sequence[str]
    ) -> Sequence[KeptRecord]:
        """Records of these syncs and connections under these keys."""
        return await self.database.read(lambda tx: records.of_keys(tx, syncs, connection_ids, keys))

    async def forget_records(
        self, syncs: Sequence[str], connection_id: str, keys: Sequence[str]
    ) -> int:
        """Delete a connection's records under these keys; how many there were."""
        return await self.database.write(lambda tx: records.forget(tx, syncs, connection_id, keys))

    async def expired(self, *, limit: int) -> Sequence[Job]:
        """Jobs whose lease or cancel deadline has passed."""
        return await self.database.read(
            self._timed(lambda tx, now: recovery.expired(tx, now, limit=limit))
        )

    async def thawable(self, *, limit: int) -> Sequence[Job]:
        """Paused jobs that may go on."""
        return await self.database.read(
            self._timed(lambda tx, now: recovery.thawable(tx, now, limit=limit))
        )

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """Let a recovered provider's jobs go, one after another."""

        def operation(tx: Connection, now: Moment) -> int:
            return recovery.release_provider(tx, now, provider, stagger=stagger, limit=limit)

        return await self.database.write(self._timed(operation))

    async def prune_events(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old events."""
        return await self.database.write(
            self._timed(lambda tx, now: events.prune(tx, now, older_than=older_than, limit=limit))
        )

    async def next_sweep_s(self) -> float | None:
        """Seconds until there is something to sweep."""
        return await self.database.read(self._timed(recovery.next_sweep_s))

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering."""
        return await self.database.free_locks()
