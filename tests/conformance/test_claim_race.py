"""One job, one worker: real processes and many tasks claim at once, and no job is given twice."""

import asyncio
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from headgate.base.clock import ManualClock
from headgate.model.job import Lane
from headgate.model.states import JobState
from headgate.ports.jobs.store import JobFilter
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests import processes, stores
from tests.store_bundles import SqlStores
from tests.stores import LEASE, new_job, submit_all, submit_one

JOBS = 2000
#: Each claim in a file waits for the disk, so fewer jobs race as long.
JOBS_IN_FILE = 600
USERS = 50
WORKER = "tests.conformance.claim_worker"


async def submit_many(store: SqlStores, count: int) -> set[str]:
    """Submit `count` jobs of many users."""
    wanted = [new_job(user_id=f"user_{number % USERS}") for number in range(count)]
    return {job.id for job in await submit_all(store, wanted)}


def claims_of(kind: str, address: str, workers: int) -> list[list[str]]:
    """What each of so many processes got, all of which began together."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(processes.started(WORKER, kind, address)) for _ in range(workers)
        ]
        for each in started:
            each.wait_for_line("ready")
        for each in started:
            each.stdin.write("go\n")
            each.stdin.flush()
        return [claims_of_one(each) for each in started]


def claims_of_one(worker: processes.Process) -> list[str]:
    claimed = [job_id for line in worker.stdout for job_id in json.loads(line)]
    assert worker.wait() == 0
    return claimed


def assert_each_once(claims: list[list[str]], submitted: set[str]) -> None:
    counted = Counter(job_id for mine in claims for job_id in mine)
    assert [job_id for job_id, count in counted.items() if count > 1] == []
    assert set(counted) == submitted


async def test_eight_processes_on_postgres_never_share_a_job(
    store_url: str, clock: ManualClock
) -> None:
    # Given many jobs in line
    database = PostgresDatabase(store_url, clock)
    await database.open()
    try:
        await stores.empty(database)
        store = SqlStores(database, stores.SYNCS)
        submitted = await submit_many(store, JOBS)

        # When eight processes claim until nothing is left
        claims = await asyncio.to_thread(claims_of, "postgres", store_url, 8)

        # Then every job was given to exactly one of them, and most of them got some
        assert_each_once(claims, submitted)
        assert len([mine for mine in claims if mine]) > 1
        assert await running_with_one_claim(store) == JOBS
    finally:
        await database.close()


async def test_two_processes_on_one_sqlite_file_never_share_a_job(
    store_file: Path, clock: ManualClock, tmp_path: Path
) -> None:
    # Given jobs in line in a file
    path = tmp_path / "shared.db"
    path.write_bytes(store_file.read_bytes())
    database = SqliteDatabase(path, clock)
    await database.open()
    try:
        store = SqlStores(database, stores.SYNCS)
        submitted = await submit_many(store, JOBS_IN_FILE)

        # When two processes claim until nothing is left, while this one has the file open too
        claims = await asyncio.to_thread(claims_of, "sqlite", str(path), 2)

        # Then every job was given to exactly one of them
        assert_each_once(claims, submitted)
        assert await running_with_one_claim(store) == JOBS_IN_FILE
    finally:
        await database.close()


async def running_with_one_claim(store: SqlStores) -> int:
    """How many jobs were claimed exactly once."""
    running = await store.jobs.list_jobs(JobFilter(states=(JobState.RUNNING,)), limit=2 * JOBS)
    return sum(job.token == 1 for job in running)


async def test_sleepers_that_wake_under_many_claims_are_given_once(
    database: Database, clock: ManualClock
) -> None:
    # Given a hundred sleepers that have come due, and none of them in line yet
    store = SqlStores(database, stores.SYNCS)
    sleepers = [await submit_one(store, user_id=f"user_{n % 7}", delay_s=10) for n in range(100)]
    clock.advance(60)

    # When sixteen tasks claim at the same time, until nobody gets any
    taken: list[list[str]] = []
    while len(taken) < 100:
        answers = await asyncio.gather(
            *(store.jobs.claim(Lane.COLD, worker="w", limit=10, lease=LEASE) for _ in range(16))
        )
        taken.append([job.id for answer in answers for job in answer.jobs])
        if not taken[-1]:
            break

    # Then each was woken and given once
    assert_each_once(taken, {job.id for job in sleepers})
