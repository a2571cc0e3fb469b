"""The composition root: the only place that picks a clock, a database and a signal.

An `App` is what an application holds: it submits jobs, asks about them, and runs workers.
"""

import os
import random
import socket
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from headgate.base.clock import Clock, SystemClock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput, NotFound
from headgate.base.ids import UlidIds, system_random
from headgate.flow import control
from headgate.flow.explain import explain
from headgate.flow.gate import Gates
from headgate.flow.registry import Registry, Sync
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, submit
from headgate.limits.memory import MemoryLimiter
from headgate.loops.supervisor import Supervisor, WorkerSettings
from headgate.model.budget import BudgetUse
from headgate.model.job import Job, JobEvent, Lane, Mode
from headgate.model.record import CoverageRow, Record
from headgate.model.states import JobState
from headgate.ports.limiter import Limiter
from headgate.ports.signal import Signal
from headgate.ports.store import JobFilter, Submitted
from headgate.store.sql import schema
from headgate.store.sql.database import Database
from headgate.store.sql.limiter import SqlLimiter, SqlLimiterMemory
from headgate.store.sql.sqlite import SqliteDatabase
from headgate.store.sql.store import SqlStore

LIST_MAX = 1000


class App:
    """Headgate on one database, with the syncs that an application declares."""

    def __init__(
        self,
        database: str | Database = "sqlite:///headgate.db",
        *,
        syncs: Iterable[Sync] = (),
        worker: WorkerSettings | None = None,
        redis: str | None = None,
        signal: Signal | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Use the database at that address: `sqlite:///file.db` or `postgresql://…`.

        Budgets are kept in it too, or in the Redis at the address `redis`. A test or a simulation
        hands in a database, a signal, a clock and randomness of its own.
        """
        self.clock = clock or SystemClock()
        self._rng = rng or system_random()
        self._ids = UlidIds(self.clock, self._rng)
        self._worker_settings = worker or WorkerSettings()
        #: Names this process wherever it holds something.
        self.name = self._ids.new(f"{socket.gethostname()}-{os.getpid()}")
        self.database = (
            open_database(database, self.clock) if isinstance(database, str) else database
        )
        self.store = SqlStore(self.database)
        self.limiter: Limiter = SqlLimiter(self.database)
        if redis is not None:
            # Imported here: the driver is an extra.
            from headgate.limits.redis import RedisLimiter

            memory = SqlLimiterMemory(self.database, "redis")
            self.limiter = RedisLimiter(redis, memory, self.clock, self._ids)
        self.runtime = Runtime(
            store=self.store,
            signal=signal or _signal(self.database, self.clock, origin=self.name),
            clock=self.clock,
            ids=self._ids,
            rng=self._rng,
            registry=Registry(syncs),
            gates=Gates(self.limiter, MemoryLimiter(self.clock), self.clock, self._ids),
        )

    async def open(self) -> None:
        """Connect, bring an embedded database up to date, begin to listen."""
        await self.database.open()
        await schema.prepare(self.database)
        await self.runtime.signal.start()

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""
        await self.runtime.signal.stop()
        await self.limiter.close()
        await self.database.close()

    async def __aenter__(self) -> Self:
        """Open."""
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def submit(
        self,
        sync: str,
        *,
        user_id: str,
        connection_id: str,
        mode: Mode | str = Mode.FULL,
        start: date | None = None,
        end: date | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        lane: Lane | str | None = None,
        key: str | None = None,
        options: JsonObject | None = None,
        delay_s: float = 0.0,
    ) -> Submitted:
        """Store a job for a sync and a connection; see `JobRequest` for what each field means."""
        request = JobRequest(
            sync=sync,
            user_id=user_id,
            connection_id=connection_id,
            mode=mode,
            start=start,
            end=end,
            since=since,
            limit=limit,
            lane=lane,
            key=key,
            options=options or {},
            delay_s=delay_s,
        )
        return await submit(self.runtime, request)

    async def get(self, job_id: str, *, user_id: str | None = None) -> Job:
        """The job; NotFound where it is not there or not that user's."""
        return await self.store.get(job_id, user_id=user_id)

    async def jobs(
        self,
        *,
        user_id: str | None = None,
        sync: str | None = None,
        connection_id: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Job]:
        """Jobs, newest first; go on with `before`, the last id of the page before."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        wanted = JobFilter(
            user_id=user_id, sync=sync, connection_id=connection_id, states=tuple(states)
        )
        return await self.store.list_jobs(wanted, limit=limit, before=before)

    async def events(self, job_id: str, *, after: int = 0, limit: int = 200) -> Sequence[JobEvent]:
        """A job's story in order; go on with `after`, the last id of the page before."""
        return await self.store.events(job_id, after=after, limit=limit)

    async def coverage(
        self, sync: str, connection_id: str, *, start: date, end: date
    ) -> Sequence[CoverageRow]:
        """What is known of each day; a day without a row is missing."""
        return await self.store.coverage(sync, connection_id, start, end)

    async def records(
        self, sync: str, connection_id: str, *, after: str | None = None, limit: int = 200
    ) -> Sequence[Record]:
        """Records that Headgate keeps for a connection, in the order of their keys."""
        return await self.store.records(sync, connection_id, after=after, limit=limit)

    async def pause(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Stand still until resumed; a running job stops at its next checkpoint."""
        return await control.pause(self.runtime, job_id, user_id=user_id)

    async def resume(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Go on from where it stopped."""
        return await control.resume(self.runtime, job_id, user_id=user_id)

    async def retry_now(self, job_id: str, *, user_id: str | None = None) -> Job:
        """Try a paused or failed job again at once."""
        return await control.retry_now(self.runtime, job_id, user_id=user_id)

    async def cancel(self, job_id: str, *, user_id: str | None = None) -> Job:
        """End the job; a running one is `cancelling` until its worker lets go."""
        return await control.cancel(self.runtime, job_id, user_id=user_id)

    async def budgets(
        self, source: str | None = None, *, connection_id: str | None = None
    ) -> Sequence[BudgetUse]:
        """How the declared budgets stand; with a connection, what is counted for it too."""
        declared = self.runtime.registry.budgets
        if source is not None and source not in declared:
            there_are = ", ".join(sorted(declared)) or "none"
            raise NotFound(f"no budget is declared for {source!r}; there are: {there_are}")
        wanted = [declared[source]] if source is not None else declared.values()
        return [await self.limiter.use(each, connection_id=connection_id) for each in wanted]

    def explain(self, job: Job) -> str:
        """Why the job is where it is, what frees it, and when."""
        return explain(job, now=self.clock.now())

    def supervisor(self) -> Supervisor:
        """A worker for this process; `run_until_asked` runs it."""
        return Supervisor(self.runtime, self._worker_settings, worker=self.name)


def open_database(address: str, clock: Clock) -> Database:
    """The database at an address, not yet connected."""
    try:
        url = make_url(address)
    except ArgumentError:
        raise InvalidInput(
            "database", "is not an address; write sqlite:///file.db or postgresql://host/name"
        ) from None
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise InvalidInput("database", "name a file, such as sqlite:///headgate.db")
            return SqliteDatabase(Path(url.database), clock)
        case "postgresql":
            # Imported here: the driver is an extra.
            from headgate.store.sql.postgres import PostgresDatabase

            return PostgresDatabase(address, clock)
        case other:
            raise InvalidInput("database", f"{other} is not known; use sqlite or postgresql")


def _signal(database: Database, clock: Clock, *, origin: str) -> Signal:
    if isinstance(database, SqliteDatabase):
        from headgate.signals.sqlite import SqliteSignal

        return SqliteSignal(database.path, database.foreign_commits, clock)
    from headgate.signals.postgres import PostgresSignal
    from headgate.store.sql.postgres import PostgresDatabase

    assert isinstance(database, PostgresDatabase)
    return PostgresSignal(database.dsn, clock, origin=origin)
