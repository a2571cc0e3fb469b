"""Checkpoints of a SQLite file: the log stays small, and nobody commits while one is made."""

import sqlite3
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from headgate.base.clock import SystemClock
from headgate.base.errors import FaultKind
from headgate.base.log import configure
from headgate.store.sql.engine import sqlite_writer
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.engine.sqlite_writer import Checkpoints, raw_connection
from tests.stores import in_use, raises_fault


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with in_use(opened := SqliteDatabase(tmp_path / "jobs.db", SystemClock())):
        create = text("CREATE TABLE notes (id INTEGER, body TEXT)")
        await opened.write(lambda tx: tx.execute(create))
        yield opened


def add(tx: Connection) -> None:
    tx.execute(text("INSERT INTO notes VALUES (1, :body)"), {"body": "x" * 2000})


async def test_the_log_does_not_grow_with_what_is_written(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_CHANGES", 50)
    for _ in range(600):
        await database.write(add)

    written = 600 * 2000
    log = Path(f"{database.path}-wal").stat().st_size
    assert log < written / 2 < database.path.stat().st_size


@pytest.mark.security(30)
async def test_nobody_can_commit_while_a_checkpoint_is_made(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given another process with the file, which is asked to write whenever a checkpoint begins
    foreign = sqlite3.connect(database.path, timeout=0, check_same_thread=False)
    refused: list[str] = []

    def note(statement: str) -> None:
        if "wal_checkpoint" in statement:
            try:
                foreign.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                refused.append(str(error))

    await database.write(lambda tx: raw_connection(tx).set_trace_callback(note))
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_CHANGES", 1)

    # When the first checkpoints are made; a write waits for the one before it
    for _ in range(3):
        await database.write(add)

    # Then it could not: SQLite's WAL-reset bug needs a commit during a checkpoint
    assert refused == ["database is locked"] * len(refused) and len(refused) >= 2
    await database.write(lambda tx: raw_connection(tx).set_trace_callback(None))
    foreign.close()


@pytest.mark.security(30)
async def test_no_connection_makes_checkpoints_by_itself(database: SqliteDatabase) -> None:
    def pages(tx: Connection) -> int:
        return int(tx.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one())

    assert (await database.write(pages), await database.read(pages)) == (0, 0)


async def test_a_checkpoint_that_cannot_be_made_harms_nothing(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_CHANGES", 1)
    checkpoints = Checkpoints(database._engine, database._file)

    def write_twice(tx: Connection) -> None:
        add(tx)
        checkpoints.make_if_due(tx)
        assert checkpoints._lock_connection is not None
        # The second finds its connection closed.
        raw_connection(checkpoints._lock_connection).close()
        add(tx)
        checkpoints.make_if_due(tx)

    lines = StringIO()
    configure(SystemClock(), json=True, level="warning", stream=lines)
    with database._engine.connect() as connection:
        write_twice(connection)

    assert "no_checkpoint" in lines.getvalue()
    count = await database.read(lambda tx: tx.execute(text("SELECT count(*) FROM notes")).scalar())
    assert count == 2


async def test_a_first_checkpoint_after_the_file_is_gone_makes_no_other_file(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_CHANGES", 1)
    aside = database.path.with_name("aside.db")
    database.path.rename(aside)
    for _ in range(2):
        with raises_fault(FaultKind.DATABASE_REPLACED):
            await database.write(add)

    assert not database.path.exists()
    # Once it is back, the same process goes on.
    aside.rename(database.path)
    await database.write(add)


async def test_a_checkpoint_without_a_connection_does_not_end_the_writer(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect() -> None:
        raise OperationalError("connect", {}, OSError("too many open files"))

    monkeypatch.setattr(database._engine, "connect", connect)
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_CHANGES", 1)
    for _ in range(3):
        await database.write(add)
