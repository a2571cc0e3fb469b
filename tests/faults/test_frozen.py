"""A worker frozen with locks in its hands, at the worst points of a conversation with Postgres.

Between Parse and Bind its session counts as active, and no time-out of the server's ends it. The
bounds are short here; what they are by default is in `store/sql/engine/postgres.py`.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import text

from headgate import App
from headgate.base.clock import SystemClock
from headgate.flow.leases.claims import ActiveClaims
from headgate.flow.leases.recover import leased_work
from headgate.loops.rescuer import SWEEP_LEASES, Rescuer
from headgate.loops.supervisor import WorkerSettings
from headgate.model.lease import Claim
from headgate.model.states import JobState
from headgate.ports.items import NewItem
from headgate.ports.jobs.store import JobFilter
from headgate.store.sql.engine.postgres import LOCK_S_MAX, SILENT_S_MAX, PostgresDatabase
from headgate.store.sql.items.store import SqlItems
from tests import processes, stores
from tests.faults.freezing_proxy import FreezeAt, freezing
from tests.faults.lock_worker import COLLECTION, OPERATIONS, SYNCS
from tests.store_bundles import SqlStores

#: A client that says nothing for so long is frozen; a lock is waited for so long at a time.
SILENT_S, LOCK_S = 0.5, 0.2
#: Each operation: the statement that locks, the table whose rows it locks, and where to freeze it.
#: What is over with that one statement has no other to prepare, and can only be frozen in COMMIT.
LOCKING: dict[str, tuple[str, str, Iterable[FreezeAt]]] = {
    # A claim is one statement without a transaction: between its messages it locks nothing.
    "settle_job": (
        r"SELECT headgate_jobs\.id, headgate_jobs\.state.*FOR UPDATE",
        "headgate_jobs",
        FreezeAt,
    ),
    "spend": (r"FROM headgate_budgets.*FOR UPDATE", "headgate_budgets", FreezeAt),
    "settle_item": (r"\0SELECT headgate_items\..*FOR UPDATE", "headgate_items", FreezeAt),
    "prune": (r"DELETE FROM headgate_job_events", "headgate_job_events", (FreezeAt.COMMIT,)),
}
#: Long at work before its result; and with a result that takes the client a while to read.
BUSY_S = 3.0
BUSY = (
    f"SELECT pg_sleep({BUSY_S})",
    f"SELECT repeat('x', 1000000), pg_sleep({BUSY_S} / 16) FROM generate_series(1, 16)",
)
#: A job's row at both points, and rows that are deleted; the others are thorough.
CASES = [
    pytest.param(
        operation,
        at,
        marks=() if operation in {"settle_job", "prune"} else pytest.mark.thorough,
    )
    for operation, (*_, points) in LOCKING.items()
    for at in points
]
#: How long to leave the server alone between two looks.
LOOK_S = 0.05


@pytest.fixture
async def url(postgres_address: str) -> str:
    """A database with one of everything that can be locked."""
    url = postgres_address
    async with opened(url) as database:
        await stores.submit_one(SqlStores(database, SYNCS), connection_id="c")
        item = NewItem(
            id="item",
            collection=COLLECTION,
            user_id="u",
            connection_id="c",
            external_id="1",
            start_time=stores.START,
        )
        await SqlItems(database).register([item])
        await OPERATIONS["spend"](database)
    return url


@asynccontextmanager
async def opened(url: str, *, silent_s: float = SILENT_S) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, SystemClock(), silent_s=silent_s, lock_s=LOCK_S)
    async with stores.in_use(database):
        yield database


def rescuer_of(database: PostgresDatabase) -> Rescuer:
    app = App(database, clock=SystemClock())
    claims = ActiveClaims(app._runtime.jobs, app.clock)
    return Rescuer(app._runtime, leased_work(app._runtime, claims), lease_s=60.0)


async def is_locked(url: str, table: str) -> bool:
    """Whether anybody has a lock on a row of the table."""
    connection = await asyncpg.connect(url)
    try:
        there = await connection.fetchval(f"SELECT count(*) FROM {table}")
        free = await connection.fetch(f"SELECT 1 FROM {table} FOR UPDATE SKIP LOCKED")
        return len(free) < int(there)
    finally:
        await connection.close()


async def silence(url: str) -> float:
    """For how long the server has waited for the next message of a transaction, in seconds."""
    return float(
        await stores.execute_on(  # type: ignore[arg-type]
            url,
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change)), 0)::float8"
            " FROM pg_stat_activity WHERE datname = current_database()"
            " AND xact_start IS NOT NULL AND wait_event = 'ClientRead'",
        )
    )


async def silent_for(url: str, seconds: float) -> None:
    async with asyncio.timeout(processes.WAIT_S_MAX):
        while await silence(url) <= seconds:
            await stores.execute_on(url, f"SELECT pg_sleep({seconds})")


@asynccontextmanager
async def frozen(url: str, operation: str, at: FreezeAt) -> AsyncIterator[processes.Process]:
    """A process that was frozen in the middle of the operation, and has the lock."""
    locking, table, _ = LOCKING[operation]
    async with freezing(url, locking, at) as proxy:
        environment = {"DATABASE": proxy.url}
        worker = await asyncio.to_thread(
            processes.Process, "tests.faults.lock_worker", operation, environment=environment
        )
        proxy.freeze = lambda: worker.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(processes.WAIT_S_MAX):
                await proxy.frozen.wait()
            assert await is_locked(url, table)
            yield worker
        finally:
            await asyncio.to_thread(worker.end)


async def wakes_refused(worker: processes.Process) -> None:
    """It goes on, and finds that what it was doing came to nothing."""
    worker.send_signal(signal.SIGCONT)
    await asyncio.to_thread(worker.wait_for_line, "refused")
    assert await asyncio.to_thread(worker.wait) == 0


@pytest.mark.parametrize(("operation", "at"), CASES)
async def test_a_sweep_frees_every_lock_of_a_frozen_worker(
    url: str, operation: str, at: FreezeAt
) -> None:
    # Given a worker that is frozen with a lock
    async with frozen(url, operation, at) as worker, opened(url) as database:
        # When another process sweeps for which the first has not been silent for long enough
        async with opened(url, silent_s=3600.0) as patient:
            await rescuer_of(patient).run_once()
        assert await is_locked(url, LOCKING[operation][1])

        # And when one does for which it has
        await silent_for(url, SILENT_S)
        await rescuer_of(database).run_once()
        async with asyncio.timeout(processes.WAIT_S_MAX):
            while await is_locked(url, LOCKING[operation][1]):
                pass  # the server is ending the session; nobody else helps

        # Then the lock is free, and the worker's operation never happened
        await wakes_refused(worker)
        [job] = await SqlStores(database, SYNCS).jobs.list_jobs(JobFilter(), limit=10)
        was_claimed = operation == "settle_job"
        assert job.state is (JobState.RUNNING if was_claimed else JobState.PENDING)


@pytest.mark.parametrize("operation", ["settle_job", "spend"])
@pytest.mark.fault(28)
async def test_whoever_waits_for_a_frozen_workers_lock_gets_it(url: str, operation: str) -> None:
    # Given a worker that is frozen with a lock, and nobody who sweeps
    async with frozen(url, operation, FreezeAt.BIND) as worker, opened(url) as database:
        # When another needs the same row
        async with asyncio.timeout(processes.WAIT_S_MAX):
            if operation == "spend":
                await OPERATIONS["spend"](database)
            else:
                store = SqlStores(database, SYNCS)
                [job] = await store.jobs.list_jobs(JobFilter(), limit=10)
                held = await store.jobs.extend([Claim(job.id, job.token)], lease=stores.LEASE)
                assert held == {job.id: JobState.RUNNING}

        # Then it waits for no longer than it takes to see that the first is frozen
        await wakes_refused(worker)


@pytest.mark.parametrize("statement", BUSY)
async def test_a_transaction_at_work_is_left_alone_however_long_it_takes(
    url: str, statement: str
) -> None:
    # Given a transaction that keeps the server busy for longer than a client may be silent
    async with (
        opened(url, silent_s=BUSY_S / 2) as database,
        opened(url, silent_s=BUSY_S / 2) as sweeping,
    ):
        work = text(statement)
        busy = asyncio.create_task(database.write(lambda tx: len(tx.execute(work).all())))

        # When others sweep all the while, then it is not ended
        freed = 0
        while not busy.done():
            freed += await sweeping.free_locks()
            await asyncio.wait({busy}, timeout=LOOK_S)
        await busy
        assert freed == 0


async def test_a_migration_waits_for_no_frozen_worker(url: str) -> None:
    # Given a frozen worker with a lock on a table, and nobody who sweeps
    async with frozen(url, "settle_job", FreezeAt.BIND) as worker, opened(url) as database:
        # When the table is to be changed
        alter = text("ALTER TABLE headgate_jobs ADD COLUMN added TEXT")
        async with asyncio.timeout(processes.WAIT_S_MAX):
            await database.migrate(lambda tx: tx.execute(alter))

        # Then it is, and the worker finds out
        await wakes_refused(worker)


async def test_a_role_that_may_end_nobody_sweeps_all_the_same(url: str) -> None:
    # Given a role of Headgate's that may not even call what ends sessions
    await stores.execute_on(url, "REVOKE EXECUTE ON FUNCTION pg_terminate_backend FROM PUBLIC")
    await stores.execute_on(url, "CREATE ROLE modest LOGIN")
    await stores.execute_on(url, "GRANT ALL ON ALL TABLES IN SCHEMA public TO modest")
    try:
        async with opened(url.replace("postgres@", "modest@")) as database:
            # When it sweeps, then the rest is done
            assert await rescuer_of(database).run_once() > 0
            assert await database.free_locks() == 0
    finally:
        await stores.execute_on(url, "DROP OWNED BY modest")
        await stores.execute_on(url, "DROP ROLE modest")


def test_the_bounds_are_those_that_the_record_states() -> None:
    assert SILENT_S_MAX + LOCK_S_MAX == 15
    assert SILENT_S_MAX + SWEEP_LEASES * WorkerSettings().lease_s == 50
    said = (processes.ROOT / "docs/adr/002-one-process-for-a-sqlite-file.md").read_text("utf-8")
    assert "for at most 15 s where another waits" in " ".join(said.split())
    assert "(50 s by default)" in said
