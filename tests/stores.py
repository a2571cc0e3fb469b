"""Stores for the tests, on every database, and builders of what goes into them.

The fixtures that open and empty a store are in `conftest.py`; here is what they and the tests use.
"""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest
from sqlalchemy import Connection, Executable, select, text, update
from sqlalchemy.engine import make_url

from headgate.base.clock import ManualClock
from headgate.base.encoding import Json
from headgate.base.errors import FaultKind, StoreFault, StoreUnavailable
from headgate.model import change
from headgate.model.change import ChunkResult
from headgate.model.job import Job, JobParams, Lane, Mode, Progress, Reason, Summary
from headgate.model.states import JobState
from headgate.ports.jobs.submission import NewJob
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.jobs import submit as jobs
from headgate.store.sql.tables import jobs as job_table
from headgate.store.sql.tables import metadata
from tests import dynamo, run_servers
from tests.emulators import PROCESS
from tests.kept import kept_here
from tests.store_bundles import DynamoStores, SqlStores, Stores

T = TypeVar("T")

#: Makes another `Database` on the same file or server, as another process would; not yet open.
MakeDatabase = Callable[[], Database]

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
LEASE = timedelta(seconds=60)
#: What the application of these stores runs.
SYNCS = ("notes", "other")
#: A wait for something that is sure to come: reached only when the test fails.
SOON_S = 30.0


# ---- databases ---------------------------------------------------------------------------------


def raises_fault(kind: FaultKind) -> pytest.RaisesExc[StoreFault]:
    """Expect this fault of the disk or the file of the database."""
    return pytest.raises(StoreFault, check=lambda fault: fault.kind is kind)


def run_async(body: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from a fixture that is not one."""
    return asyncio.run(body)


async def execute_on(url: str, statement: str) -> object:
    """Run one statement on a connection of its own, outside of any transaction."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def until_one_waits(url: str) -> None:
    """Until a transaction of that database waits for another; the server has other databases."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(SOON_S):
        while not await execute_on(url, waiting):
            pass


async def create_postgres(server_url: str, name: str, *, template: str = "template1") -> str:
    """A new database of this process, in place of any old one of that name; its address.

    The name gets that of the process, because others use the server too.
    """
    name = f"{name}_{PROCESS}"
    await execute_on(server_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await execute_on(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


async def migrate(database: Database) -> None:
    """Open the database, bring its schema up to date, and close it."""
    await database.open()
    try:
        await schema.migrate(database)
    finally:
        await database.close()


async def migrated_postgres(server_url: str, name: str) -> str:
    """A new, migrated database on the server; its address."""
    url = await create_postgres(server_url, name)
    await migrate(PostgresDatabase(url, ManualClock(START)))
    return url


async def migrated_sqlite(path: Path) -> Path:
    """A new, migrated file at `path`."""
    await migrate(SqliteDatabase(path, ManualClock(START)))
    return path


def copied_postgres(server_url: str, name: str) -> str:
    """The same as `migrated_postgres` on the run's server, where only the first is migrated."""

    def make(path: Path) -> None:
        url = run_async(migrated_postgres(server_url, "template"))
        path.write_text(str(make_url(url).database), encoding="utf-8")

    template = run_servers.once("template", make).read_text(encoding="utf-8")
    return run_async(create_postgres(server_url, name, template=template))


def sqlite_template() -> Path:
    """A migrated file, to be copied by whoever wants one."""

    def make(path: Path) -> None:
        run_async(migrated_sqlite(path))

    return run_servers.once("migrated.db", make)


def make_database(
    request: pytest.FixtureRequest, kind: str, clock: ManualClock, folder: Path
) -> MakeDatabase:
    """Makes databases of that kind, not yet open, on one and the same file or server."""
    if kind == "postgres":
        url: str = request.getfixturevalue("store_url")
        return lambda: PostgresDatabase(url, clock, server_time=False)
    path = folder / "headgate.db"
    shutil.copyfile(request.getfixturevalue("store_file"), path)
    # What a power cut would lose is of no interest, and to flush the disk takes its time.
    return lambda: SqliteDatabase(path, clock, synchronous="OFF")


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[Database]:
    """The database, open and empty; closed at the end."""
    async with in_use(database):
        if isinstance(database, PostgresDatabase):
            await empty(database)
        yield database


@asynccontextmanager
async def in_use(database: Database) -> AsyncIterator[None]:
    """The database open, on connections that are kept or on its own, which close at the end."""
    if await lend_pool(database):
        yield
        return
    await database.open()
    try:
        yield
    finally:
        await database.close()


async def lend_pool(database: Database) -> bool:
    """Let it use connections that are kept, if there are any; whether it does."""
    kept = kept_here()
    if kept is None or not isinstance(database, PostgresDatabase):
        return False
    kept.lend_pool(database)
    try:
        await database.open()
    except StoreUnavailable:
        # A test before has cut a connection off. Who notices it replaces all.
        await database.open()
    return True


#: In one round trip; to truncate as many tables, each with its indexes, takes fifty times as long.
_EMPTY = text(
    "DO $$ BEGIN "
    + " ".join(f"DELETE FROM {table.name};" for table in metadata.sorted_tables)
    + " PERFORM setval(pg_get_serial_sequence('headgate_job_events', 'id'), 1, false); END $$"
)


async def empty(database: Database) -> None:
    """Delete everything; what is numbered starts again at one."""
    await database.write(lambda tx: tx.execute(_EMPTY))


async def execute(database: Database, statement: Executable) -> None:
    """Run one statement in a transaction of its own."""
    await database.write(lambda tx: tx.execute(statement))


def contents(tx: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table: compare two to see that nothing was written between.

    By the names of the tables, without the prefix that all of them have.
    """
    return {
        table.name.removeprefix("headgate_"): [
            tuple(row) for row in tx.execute(select(table).order_by(*table.primary_key.columns))
        ]
        for table in metadata.sorted_tables
    }


async def everything(store: Stores) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that the store holds, by the names of the tables in SQL."""
    if isinstance(store, DynamoStores):
        return await dynamo.contents(store.table)
    assert isinstance(store, SqlStores)
    return await store.database.read(contents)


def store_for(store: Stores, syncs: Sequence[str]) -> Stores:
    """A store on the same database, for an application with other syncs."""
    if isinstance(store, DynamoStores):
        return DynamoStores(store.table, syncs)
    assert isinstance(store, SqlStores)
    return SqlStores(store.database, syncs)


def is_sql(store: Stores) -> bool:
    """Whether the store is on a SQL database, which takes a thousand rows in no time."""
    return isinstance(store, SqlStores)


async def rewrite(store: Stores, job: Job) -> None:
    """Write the job over its row, past all rules."""
    if isinstance(store, DynamoStores):
        await dynamo.rewrite(store, job)
        return
    assert isinstance(store, SqlStores)
    values = {name: getattr(job, name) for name in Job.__struct_fields__}
    statement = update(job_table).where(job_table.c.id == job.id).values(values)
    await store.database.write(lambda tx: tx.execute(statement))


# ---- jobs --------------------------------------------------------------------------------------

_numbers = itertools.count(1)


def new_job(
    *,
    job_id: str | None = None,
    user_id: str = "user_1",
    connection_id: str | None = None,
    sync: str = "notes",
    source: str = "roam",
    mode: Mode = Mode.FULL,
    lane: Lane = Lane.COLD,
    key: str | None = None,
    request_hash: str = "request",
    params: JobParams | None = None,
    start_date: date | None = None,
    end_date: date | None = None,
    cursor: Json = None,
    delay_s: float = 0.0,
) -> NewJob:
    """A job to submit. Each has its own connection, and an id that sorts after the last one's."""
    number = next(_numbers)
    return NewJob(
        id=job_id or f"job_{number:08d}",
        user_id=user_id,
        connection_id=connection_id or f"connection_{number}",
        sync=sync,
        source=source,
        mode=mode,
        lane=lane,
        key=key,
        request_hash=request_hash,
        params=params or JobParams(),
        start_date=start_date,
        end_date=end_date,
        cursor=cursor,
        progress=Progress(),
        delay=timedelta(seconds=delay_s),
    )


async def submit_one(store: Stores, **fields: Any) -> Job:
    """Submit `new_job(**fields)`, which must be created."""
    submitted = await store.jobs.submit(new_job(**fields))
    assert submitted.created
    return submitted.job


async def submit_all(store: Stores, wanted: Sequence[NewJob]) -> list[Job]:
    """Submit many jobs at once, which is quicker than one by one."""
    if isinstance(store, DynamoStores):
        await store.jobs.submit_many(wanted)
        return [await store.jobs.get(each.id) for each in wanted]
    assert isinstance(store, SqlStores)
    now = store.database.moment()
    submitted = await store.database.write(
        lambda tx: [jobs.submit(tx, now, each, syncs=SYNCS) for each in wanted]
    )
    return [each.job for each in submitted]


async def claim_one(
    store: Stores, lane: Lane = Lane.COLD, *, worker: str = "worker_1", lease: timedelta = LEASE
) -> Job:
    """Claim the next job of the lane, which must have one."""
    [job] = (await store.jobs.claim(lane, worker=worker, limit=1, lease=lease)).jobs
    return job


async def claim_ids(store: Stores, limit: int, lane: Lane = Lane.COLD) -> list[str]:
    """The ids of the next `limit` jobs, claimed one by one: in the order in which they come."""
    ids: list[str] = []
    for _ in range(limit):
        ids += [
            job.id for job in (await store.jobs.claim(lane, worker="w", limit=1, lease=LEASE)).jobs
        ]
    return ids


async def run_one(store: Stores, **fields: Any) -> Job:
    """Submit a job and claim it; nothing else may be in its lane's line."""
    job = await submit_one(store, **fields)
    running = await claim_one(store, job.lane)
    assert running.id == job.id
    return running


def tally(*, cursor: Json = "next", done: int = 1, **summary: Any) -> ChunkResult:
    """What a chunk leaves behind."""
    return ChunkResult(cursor=cursor, progress=Progress(done=done), summary=Summary(**summary))


async def settled(store: Stores, wanted: change.JobChange) -> Job:
    """Apply a change that must take effect."""
    job = await store.jobs.settle(wanted)
    assert job is not None
    return job


async def shut_one(store: Stores, *, cooldown_s: float = 300.0, **fields: Any) -> Job:
    """A job that the breaker paused."""
    running = await run_one(store, **fields)
    cooldown = timedelta(seconds=cooldown_s)
    return await settled(store, change.open_breaker(running, cooldown=cooldown, error="down"))


async def in_state(store: Stores, state: JobState, **fields: Any) -> Job:
    """A job brought to `state` by legal changes; nothing else may be in its lane's line."""
    if state is JobState.PENDING:
        return await submit_one(store, **fields)
    running = await run_one(store, **fields)
    if state is JobState.RUNNING:
        return running
    job = await settled(store, _towards(state, running))
    return job if job.state is state else await settled(store, change.cancel(job))


def _towards(state: JobState, running: Job) -> change.JobChange:
    match state:
        case JobState.PAUSED:
            return change.open_breaker(running, cooldown=timedelta(seconds=300), error="down")
        case JobState.CANCELLING | JobState.CANCELLED:
            return change.ask_cancel(running, deadline=timedelta(seconds=30))
        case JobState.SUCCESS:
            return change.succeed(running, tally(), {})
        case JobState.FAILED:
            return change.fail(running, reason=Reason.REFUSED, error="no")
        case _:
            raise AssertionError(f"a running job is not brought to {state}")


async def kinds(store: Stores, job_id: str) -> list[str]:
    """The kinds of a job's events, in order."""
    return [event.kind for event in await store.events.list_events(job_id, after=0, limit=1000)]


def ids(of: Sequence[Job]) -> list[str]:
    """The ids of jobs, in their order."""
    return [job.id for job in of]
