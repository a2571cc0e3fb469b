"""Databases: a driver's error becomes one of ours, by its consequence, without anybody's values."""

import asyncio
import traceback
from pathlib import Path
from typing import Never

import pytest
from sqlalchemy import Connection, insert, select, text, update
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from headgate.base.clock import ManualClock
from headgate.base.errors import (
    FaultKind,
    NotFound,
    StoreError,
    StoreFault,
    StoreUnavailable,
)
from headgate.model.job import JobParams
from headgate.store.sql.engine.database import Operation, translate
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.tables import jobs
from tests.store_bundles import SqlStores
from tests.stores import SOON_S, submit_one

#: Named and not written out where it is used: a traceback shows the lines of the source as well.
VALUE = "private thought"


class DriverError(Exception):
    """An error as a driver raises it."""

    def __init__(self, said: str, sqlstate: str | None = None) -> None:
        super().__init__(said)
        if sqlstate is not None:
            self.sqlstate = sqlstate


def wrapped(error: Exception, *, lost: bool = False) -> DBAPIError:
    """The error as SQLAlchemy hands it on, with the statement and its values."""
    return DBAPIError(
        "INSERT INTO words VALUES (:word)", {"word": "private"}, error, connection_invalidated=lost
    )


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (wrapped(DriverError("gone", "08006")), StoreUnavailable),
        (wrapped(DriverError("shutting down", "57P01")), StoreUnavailable),
        (wrapped(DriverError("too many clients", "53300")), StoreUnavailable),
        (wrapped(DriverError("no idea"), lost=True), StoreUnavailable),
        (wrapped(DriverError("database is locked")), StoreUnavailable),
        (wrapped(DriverError("duplicate key", "23505")), StoreError),
        (wrapped(DriverError("check failed", "23514")), StoreError),
        (wrapped(DriverError("no such table: words")), StoreError),
        (ConnectionRefusedError("refused"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
        (InvalidRequestError("used wrongly"), StoreError),
    ],
    ids=str,
)
def test_a_drivers_error_becomes_one_of_ours(error: Exception, becomes: type[StoreError]) -> None:
    ours = translate(error)

    assert type(ours) is becomes
    assert "private" not in str(ours)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DriverError("disk", "58030"), FaultKind.DISK_BROKEN),
        (DriverError("no space left", "53100"), FaultKind.DISK_FULL),
        (DriverError("a standby", "25006"), FaultKind.DISK_READ_ONLY),
        (DriverError("invalid page", "XX001"), FaultKind.DISK_BROKEN),
    ],
    ids=str,
)
def test_a_drivers_error_tells_of_a_fault(error: Exception, kind: FaultKind) -> None:
    ours = translate(wrapped(error))

    assert isinstance(ours, StoreFault)
    assert ours.kind is kind and "private" not in str(ours)


@pytest.mark.parametrize("error", [NotFound(), ZeroDivisionError(), ValueError("wrong")], ids=repr)
def test_an_error_that_is_no_drivers_stays_as_it_is(error: Exception) -> None:
    assert translate(error) is error


def copy_job(tx: Connection) -> None:
    """Break the unique index on keys."""
    row = tx.execute(select(jobs)).mappings().one()
    tx.execute(insert(jobs).values({**row, "id": "job_copy", "connection_id": "other"}))


def spoil_state(tx: Connection) -> None:
    """Break a CHECK; Postgres would like to show the whole row."""
    tx.execute(update(jobs).values(state="nonsense"))


def ask_nowhere(tx: Connection) -> None:
    """Ask a table that is not there."""
    tx.execute(text("SELECT * FROM nowhere WHERE word = :word"), {"word": "private"})


@pytest.mark.parametrize(
    ("operation", "says"),
    [(copy_job, "(?i)unique"), (spoil_state, "ck_headgate_jobs_state"), (ask_nowhere, "nowhere")],
    ids=["unique", "check", "no table"],
)
async def test_a_refusal_says_what_was_broken_and_not_with_which_values(
    store: SqlStores, operation: Operation[None], says: str
) -> None:
    # Given a job whose every text is private
    private = {"user_id": "private user", "key": "private key", "connection_id": "private one"}
    await submit_one(store, **private, params=JobParams(options={"diary": "private thought"}))

    # When the database refuses something about it
    with pytest.raises(StoreError, match=says) as refused:
        await store.database.write(operation)

    # Then nothing of it is told, nor the statement
    assert "private" not in str(refused.value)
    assert "SELECT" not in str(refused.value)
    assert "UPDATE" not in str(refused.value)
    assert "INSERT" not in str(refused.value)


@pytest.mark.parametrize("way", ["write", "read"])
async def test_a_refusals_traceback_does_not_tell_the_values_of_a_statement(
    store: SqlStores, way: str
) -> None:
    query = text("SELECT * FROM nowhere WHERE word = :word")
    run = store.database.write if way == "write" else store.database.read

    with pytest.raises(StoreError, match="nowhere") as refused:
        await run(lambda tx: tx.execute(query, {"word": VALUE}))

    assert VALUE not in "".join(traceback.format_exception(refused.value))


async def test_a_stop_iteration_in_a_write_is_told_and_not_waited_for(store: SqlStores) -> None:
    def stop(tx: Connection) -> Never:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        async with asyncio.timeout(SOON_S):
            await store.database.write(stop)


async def test_a_secret_in_an_errors_text_is_masked(store: SqlStores) -> None:
    with pytest.raises(StoreError, match="redacted") as refused:
        await store.database.write(lambda tx: tx.execute(text('SELECT * FROM "token=hunter2"')))

    assert "hunter2" not in str(refused.value)


def test_an_address_for_people_holds_no_password(clock: ManualClock) -> None:
    url = "postgresql+asyncpg://ada:hunter2@db.example:6432/syncs?password=hunter2"
    assert PostgresDatabase(url, clock).address == "postgresql://ada@db.example:6432/syncs"
    assert SqliteDatabase(Path("a.db"), clock).address == f"sqlite:///{Path.cwd()}/a.db"
