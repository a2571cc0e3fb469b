"""Databases full of jobs, and an application that does nothing with them."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

from sqlalchemy import Connection, exists, insert, select, text

from headgate import App, Chunk, Context, Lane, Sync
from headgate.model.job import JobParams, Progress, Summary
from headgate.store.sql import schema
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.tables import ACTIVE, job_events, jobs
from tests.servers import postgres

USERS = 50
_ANY_LEFT = select(exists().where(ACTIVE))
#: Rows written by one statement, at most: a slow disk must not take longer than one may.
FILL_AT_ONCE = 50_000


class Nothing:
    """A source that answers at once, with nothing."""

    name = "nothing"

    async def read(self, ctx: Context) -> Chunk:
        """One chunk, and the job is done."""
        return Chunk()


@contextmanager
def addresses() -> Iterator[dict[str, str]]:
    """A SQLite file and a real Postgres, both with fsync on, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        with postgres(fsync=True) as server:
            yield {"sqlite": f"sqlite:///{folder}/bench.db", "postgres": server.url}


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[App]:
    """An application on an empty, migrated database."""
    app = App(address, syncs=[Sync(name="work", source=Nothing())])
    await app._database.open()
    await schema.migrate(app._database)
    async with app:
        await empty(app)
        yield app


async def empty(app: App) -> None:
    """Remove all jobs and their events."""
    await app._database.write(_empty)


def _empty(tx: Connection) -> None:
    # SQLite empties a table at once where nothing says which rows.
    how = "TRUNCATE" if tx.dialect.name == "postgresql" else "DELETE FROM"
    for table in (job_events, jobs):
        tx.execute(text(f"{how} {table.name}"))


async def fill(app: App, count: int, *, sync: str = "work", first: int = 0) -> None:
    """So many jobs in line, of a few users."""

    def operation(tx: Connection) -> None:
        now = app.clock.now()
        tx.execute(
            insert(jobs),
            [
                {
                    "id": f"job_{number:08d}",
                    "user_id": f"user-{number % USERS}",
                    "connection_id": f"connection-{number}",
                    "sync": sync,
                    "source": "nothing",
                    "mode": "full",
                    "lane": Lane.HOT.value,
                    "request_hash": "",
                    "params": JobParams(),
                    "state": "pending",
                    "reason": "queued",
                    "wake_at": now,
                    "turn": number // USERS,
                    "progress": Progress(),
                    "summary": Summary(),
                    "created_at": now,
                    "updated_at": now,
                }
                for number in range(first, first + count)
            ],
        )

    await app._database.write(operation)
    await settle_down(app)


async def fill_ended(app: App, count: int) -> None:
    """So many jobs that ended long ago: what a table is mostly made of."""
    await fill(app, 1, sync="template")
    for first in range(1, count + 1, FILL_AT_ONCE):
        await _fill_ended(app, first, min(count, first + FILL_AT_ONCE - 1))
    await app._database.write(
        lambda tx: tx.execute(
            jobs.delete().where(jobs.c.sync == "template", jobs.c.state == "pending")
        )
    )


async def _fill_ended(app: App, first: int, last: int) -> None:
    def operation(tx: Connection) -> None:
        numbers = (
            "SELECT generate_series(CAST(:first AS INTEGER), CAST(:last AS INTEGER)) AS n"
            if tx.dialect.name == "postgresql"
            else "WITH RECURSIVE s(n) AS "
            "(SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) SELECT n FROM s"
        )
        names = [column.name for column in jobs.columns]
        values = {
            **{name: f'template."{name}"' for name in names},
            "id": "'ended_' || numbers.n",
            "user_id": "'user-' || numbers.n % 1000",
            "connection_id": "'ended-' || numbers.n",
            "state": "'success'",
            "turn": "NULL",
            "wake_at": "NULL",
            "finished_at": "template.created_at",
        }
        columns = ", ".join(f'"{name}"' for name in names)
        chosen = ", ".join(values[name] for name in names)
        tx.execute(
            text(
                f"INSERT INTO headgate_jobs ({columns}) "
                f"SELECT {chosen} FROM ({numbers}) AS numbers, (SELECT * FROM headgate_jobs "
                "WHERE sync = 'template' AND state = 'pending') AS template"
            ),
            {"first": first, "last": last},
        )

    await app._database.write(operation)


async def settle_down(app: App) -> None:
    """What would have happened by then: autovacuum on Postgres, a checkpoint on SQLite."""
    if isinstance(app._database, PostgresDatabase):
        await app._database.write(lambda tx: tx.execute(text("ANALYZE headgate_jobs")))
    else:
        await asyncio.to_thread(_checkpoint, str(getattr(app._database, "path", "")))


def _checkpoint(file: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def any_left(app: App) -> bool:
    """Whether a job is not done yet."""
    return await app._database.read(lambda tx: bool(tx.execute(_ANY_LEFT).scalar_one()))
