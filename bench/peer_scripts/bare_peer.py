"""The bare drivers, measured: the same rows in Headgate's own table, written durably, and no more.

A submit is one INSERT of the same row; many are one COPY, or one transaction on SQLite. A worker
claims a batch, and completes it, each by one statement; a step is one guarded update of the row.
Nothing is checked, retried, logged or counted, and a worker that dies takes its jobs with it.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg

from bench.peer_scripts.headgate_app import SYNC, make_app
from bench.peer_scripts.protocol import CHUNKS, PROBE, STEPS, Client, Jobs, main
from bench.workload import any_left, empty
from headgate.base import event_loop

#: Jobs that are claimed and completed together.
BATCH = 100
#: How often the bare worker on a SQLite file looks.
LOOK_S = 0.005
CHANNEL = "bare"

COLUMNS = (
    "id user_id connection_id sync source provider mode lane request_hash params state reason "
    "wake_at turn steps attempts recent_errors crashes deferrals pauses probe pause_requested "
    "rerun token progress summary created_at updated_at"
).split()
CLAIM = """
UPDATE headgate_jobs SET state = 'running', token = token + 1, lease_until = {lease}, turn = NULL
WHERE id IN (
    SELECT id FROM headgate_jobs
    WHERE state = 'pending' AND turn IS NOT NULL AND lane = 'hot' AND sync = 'work'
    ORDER BY turn, wake_at, id LIMIT {limit} {lock}
) RETURNING id, token, connection_id
"""
COMPLETE = "UPDATE headgate_jobs SET state = 'success', lease_until = NULL, finished_at = {now} "
STEP = "UPDATE headgate_jobs SET steps = steps + 1, cursor = {cursor}, updated_at = {now} "
HELD = "FROM unnest($1::text[], $2::bigint[]) AS held(job, claim) WHERE id = held.job "
FENCE = "AND token = {token} AND state = 'running'"

Claimed = Sequence[tuple[str, int, str]]


def row_of(kind: str, number: int, now: object, nothing: tuple[object, object]) -> list[object]:
    """The values of a new job's row, as Headgate writes them; `nothing` is `{}` and `[]`."""
    user = f"{kind}-{number}"
    empty_object, empty_list = nothing
    ids = [f"job_{kind}_{number:08d}", user, user, SYNC, "nothing", "nothing", "full", "hot"]
    counts = [0, 0, empty_list, 0, 0, 0, False, False, False, 0]
    state = ["", empty_object, "pending", "queued", now, 0]
    return [*ids, *state, *counts, empty_object, empty_object, now, now]


class PostgresClient:
    """One connection and a prepared statement."""

    def __init__(self, url: str) -> None:
        """Not connected yet."""
        self._url = url
        self._app = make_app(url, Jobs())
        self._insert: Callable[..., Awaitable[Any]]

    async def open(self) -> Client:
        """Connect, after making the tables."""
        await self._app.migrate()
        await self._app.open()
        self._connection = await asyncpg.connect(self._url)
        places = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
        insert = f"INSERT INTO headgate_jobs ({', '.join(COLUMNS)}) VALUES ({places})"
        self._insert = (await self._connection.prepare(insert)).fetch
        notified = f"WITH job AS ({insert} RETURNING 1) SELECT pg_notify('{CHANNEL}', '') FROM job"
        self._insert_and_tell = (await self._connection.prepare(notified)).fetch
        # The driver keeps the locks of what it prepares until it runs something.
        await self._connection.execute("SELECT 1")
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        await empty(self._app)

    async def submit(self, kind: str, number: int) -> None:
        """One INSERT; where somebody waits for the job, with a notification."""
        insert = self._insert_and_tell if kind == PROBE else self._insert
        await insert(*row_of(kind, number, datetime.now(UTC), ("{}", "[]")))

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """One COPY, and a notification."""
        now = datetime.now(UTC)
        await self._connection.copy_records_to_table(
            "headgate_jobs",
            records=(row_of(kind, number, now, ("{}", "[]")) for number in numbers),
            columns=COLUMNS,
        )
        await self._connection.execute(f"NOTIFY {CHANNEL}")

    async def any_left(self) -> bool:
        """Whether a job is waiting or running."""
        return await any_left(self._app)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()
        await self._app.close()


class SqliteClient:
    """One connection, in the loop's own thread."""

    def __init__(self, url: str) -> None:
        """Not connected yet."""
        self._file = url.removeprefix("sqlite:///")
        self._app = make_app(url, Jobs())
        places = ", ".join("?" * len(COLUMNS))
        self._insert = f"INSERT INTO headgate_jobs ({', '.join(COLUMNS)}) VALUES ({places})"

    async def open(self) -> Client:
        """Open the file, after making the tables."""
        await self._app.open()
        self._connection = connect(self._file)
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        await empty(self._app)

    async def submit(self, kind: str, number: int) -> None:
        """One INSERT."""
        self._connection.execute(self._insert, self._row(kind, number))

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """All in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        rows = (self._row(kind, number) for number in numbers)
        self._connection.executemany(self._insert, rows)
        self._connection.execute("COMMIT")

    def _row(self, kind: str, number: int) -> list[object]:
        return row_of(kind, number, time.time_ns() // 1000, ("{}", "[]"))

    async def any_left(self) -> bool:
        """Whether a job is waiting or running."""
        return await any_left(self._app)

    async def close(self) -> None:
        """Disconnect."""
        self._connection.close()
        await self._app.close()


def connect(file: str) -> sqlite3.Connection:
    """A connection that commits durably, each statement by itself."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


async def work_postgres(url: str) -> None:
    """Claim and complete until there is nothing, then wait for a notification."""
    jobs, woken = Jobs(), asyncio.Event()
    connection, listener = await asyncpg.connect(url), await asyncpg.connect(url)
    await listener.add_listener(CHANNEL, lambda *_: woken.set())
    claim = await connection.prepare(
        CLAIM.format(
            lease="now() + interval '1 minute'", limit=BATCH, lock="FOR UPDATE SKIP LOCKED"
        )
    )
    fence = HELD + FENCE.format(token="held.claim")
    complete = await connection.prepare(COMPLETE.format(now="now()") + fence)
    step = await connection.prepare(STEP.format(now="now()", cursor="'1'") + fence)
    while True:
        # Before the claims: what is told while they run may be of a job that they did not see.
        woken.clear()
        while claimed := await claim.fetch():
            ids = [row["id"] for row in claimed]
            tokens = [row["token"] for row in claimed]
            for _ in range(begin(jobs, [row["connection_id"] for row in claimed])):
                await step.fetch(ids, tokens)
            await complete.fetch(ids, tokens)
        await woken.wait()


def work_sqlite(url: str) -> None:
    """Claim and complete until there is nothing, then look again soon."""
    jobs = Jobs()
    connection = connect(url.removeprefix("sqlite:///"))
    claim = CLAIM.format(lease="?", limit=BATCH, lock="")
    fence = "WHERE id = ? " + FENCE.format(token="?")
    complete = COMPLETE.format(now="?") + fence
    step = STEP.format(now="?", cursor="'1'") + fence
    while True:
        while claimed := claim_batch(connection, claim):
            now = time.time_ns() // 1000
            held = [(now, job_id, token) for job_id, token, _ in claimed]
            for _ in range(begin(jobs, [connection_id for *_, connection_id in claimed])):
                write(connection, step, held)
            write(connection, complete, held)
        time.sleep(LOOK_S)


def claim_batch(connection: sqlite3.Connection, claim: str) -> Claimed:
    """Claim by one transaction, if there is anything, which a reader sees without a lock."""
    queued = "SELECT 1 FROM headgate_jobs WHERE state = 'pending' AND turn IS NOT NULL LIMIT 1"
    if connection.execute(queued).fetchone() is None:
        return []
    connection.execute("BEGIN IMMEDIATE")
    claimed: Claimed = connection.execute(claim, (time.time_ns() // 1000,)).fetchall()
    connection.execute("COMMIT")
    return claimed


def write(connection: sqlite3.Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run the statement for all rows in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(statement, rows)
    connection.execute("COMMIT")


def begin(jobs: Jobs, names: Sequence[str]) -> int:
    """Begin all jobs of a batch; returns how many chunks each has before its last."""
    kinds = [name.partition("-") for name in names]
    for kind, _, number in kinds:
        jobs.begin(kind, int(number))
    return CHUNKS - 1 if kinds[0][0] == STEPS else 0


def work(url: str, settings: str) -> None:
    """Work; there is nothing to set."""
    if url.startswith("sqlite"):
        work_sqlite(url)
    else:
        event_loop.run(work_postgres(url))


def open_client(url: str) -> Awaitable[Client]:
    """The client for that database."""
    return (SqliteClient(url) if url.startswith("sqlite") else PostgresClient(url)).open()


if __name__ == "__main__":
    main(open_client, work, event_loop.run)
