"""SQLite: group commit, failures that stay alone, a full disk, private files."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError, StoreUnavailable
from headgate.store.sql.engine import sqlite
from headgate.store.sql.engine.database import Operation
from headgate.store.sql.engine.prepared import execute
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests import stores
from tests.stores import SOON_S, START
from tests.unit.store.sql.words import put, put_and_fail, words, words_file


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open file with one table of words."""
    async with words_file(tmp_path / "words.db") as database:
        yield database


def driver(tx: Connection) -> sqlite3.Connection:
    raw = tx.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


async def write_together(
    database: SqliteDatabase, *operations: Operation[Any]
) -> list[Any | BaseException]:
    """Let all of these wait behind one write, so that they make one group."""
    async with busy(database) as gate:
        waiting = [asyncio.create_task(database.write(each)) for each in operations]
        # Behind the first step of each task, which is what puts it in the queue.
        asyncio.get_running_loop().call_soon(gate.set)
        return await asyncio.gather(*waiting, return_exceptions=True)


@asynccontextmanager
async def busy(database: SqliteDatabase) -> AsyncIterator[threading.Event]:
    """A writer that is in the middle of something until the event is set."""
    entered, gate = threading.Event(), threading.Event()

    def block(tx: Connection) -> None:
        entered.set()
        assert gate.wait(SOON_S)

    blocked = asyncio.create_task(database.write(block))
    assert await asyncio.to_thread(entered.wait, SOON_S)
    try:
        yield gate
    finally:
        gate.set()
        await blocked


# ---- other processes ---------------------------------------------------------------------------


async def test_a_file_that_another_process_keeps_locked_is_unavailable_and_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that stands still in the middle of a transaction
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    async with words_file(tmp_path / "words.db") as database:
        other = sqlite3.connect(tmp_path / "words.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        # When something is written, then whoever wanted it may try again, as after an outage
        with pytest.raises(StoreUnavailable, match="another process keeps the database locked"):
            await database.write(put("a"))
        assert database.find_fault() is None

        # And it succeeds when the other goes on
        other.execute("ROLLBACK")
        other.close()
        await database.write(put("a"))
        assert await words(database) == ["a"]


# ---- group commit ------------------------------------------------------------------------------


async def test_writes_that_wait_together_share_one_commit(database: SqliteDatabase) -> None:
    # Given a writer whose statements are listened to
    said: list[str] = []
    await database.write(lambda tx: driver(tx).set_trace_callback(said.append))

    # When five writes wait while a first one is under way
    answers = await write_together(database, *(put(word) for word in "abcde"))

    # Then the first has a transaction of its own and the five share one, with an answer for each
    await database.write(lambda tx: driver(tx).set_trace_callback(None))
    transactions = " ".join(said).split("BEGIN IMMEDIATE")
    written = [each.count("SAVEPOINT operation") for each in transactions]
    assert [each.count("COMMIT") for each in transactions] == [1, 1, 1, 0]
    assert written == [0, 1, 5, 1]
    assert answers == ["a", "b", "c", "d", "e"]
    assert await words(database) == ["a", "b", "c", "d", "e"]


async def test_a_write_is_answered_only_after_its_commit(database: SqliteDatabase) -> None:
    # Given somebody else who reads the file
    other = sqlite3.connect(database.path)

    # When a write is answered
    await database.write(put("a"))

    # Then the other sees it
    assert other.execute("SELECT word FROM words").fetchall() == [("a",)]
    other.close()


def put_twice(tx: Connection) -> None:
    put("new")(tx)
    put("there")(tx)


@pytest.mark.parametrize(
    ("fails", "error"), [(put_and_fail("bad"), ZeroDivisionError), (put_twice, StoreError)]
)
async def test_a_write_that_fails_or_is_refused_in_a_group_is_undone_alone(
    database: SqliteDatabase, fails: Operation[Any], error: type[Exception]
) -> None:
    await database.write(put("there"))

    answers = await write_together(database, put("a"), fails, put("c"))

    assert [answers[0], answers[2]] == ["a", "c"]
    assert isinstance(answers[1], error)
    assert await words(database) == ["a", "c", "there"]


async def test_a_prepared_statement_that_is_refused_first_of_all_undoes_no_others(
    database: SqliteDatabase,
) -> None:
    # Given a connection on which SQLAlchemy itself has executed nothing yet
    await database.write(put("there"))
    await database.close()
    await database.open()
    insert = "INSERT INTO words VALUES (?)"

    # When one of a group is refused
    answers = await write_together(
        database,
        lambda tx: execute(tx, insert, ["a"]),
        lambda tx: execute(tx, insert, ["there"]),
        lambda tx: execute(tx, insert, ["c"]),
    )

    # Then it is undone alone
    assert [isinstance(answer, StoreError) for answer in answers] == [False, True, False]
    assert await words(database) == ["a", "c", "there"]


@pytest.mark.fault(18)
async def test_a_caller_that_is_cancelled_does_not_break_the_others(
    database: SqliteDatabase,
) -> None:
    # Given three writes that wait for the writer
    async with busy(database) as gate:
        waiting = [asyncio.create_task(database.write(put(word))) for word in "abc"]

        # When the second's caller goes away before its turn comes
        loop = asyncio.get_running_loop()
        loop.call_soon(waiting[1].cancel)
        loop.call_soon(gate.set)
        answers = await asyncio.gather(*waiting, return_exceptions=True)

    # Then the others are answered, and its write stands: it may have been durable already
    assert [answers[0], answers[2]] == ["a", "c"]
    assert isinstance(answers[1], asyncio.CancelledError)
    assert await words(database) == ["a", "b", "c"]


async def test_a_commit_that_fails_acknowledges_nobody(database: SqliteDatabase) -> None:
    # Given a constraint that SQLite looks at only when it commits
    def make(tx: Connection) -> None:
        tx.execute(text("CREATE TABLE parents (id INTEGER PRIMARY KEY)"))
        deferred = "REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED"
        tx.execute(text(f"CREATE TABLE children (id INTEGER {deferred})"))

    def orphan(tx: Connection) -> None:
        tx.execute(text("INSERT INTO children VALUES (7)"))

    await database.write(make)

    # When one write of a group breaks it
    answers = await write_together(database, put("a"), orphan, put("c"))

    # Then none of the group is acknowledged, nothing of it is there, and the writer goes on
    assert all(isinstance(answer, StoreError) for answer in answers)
    assert await words(database) == []
    assert await database.write(put("later")) == "later"


# ---- a full disk -------------------------------------------------------------------------------


def limit_pages(more: int) -> Operation[None]:
    """Let the file grow by so many pages and no more."""

    def operation(tx: Connection) -> None:
        there = tx.execute(text("PRAGMA page_count")).scalar_one()
        tx.execute(text(f"PRAGMA max_page_count = {there + more}"))

    return operation


@pytest.mark.fault(24)
async def test_whoever_shares_a_group_with_a_full_disk_is_not_falsely_acknowledged(
    database: SqliteDatabase,
) -> None:
    # Given a disk that is nearly full
    await database.write(limit_pages(2))

    # When one of a group does not fit
    answers = await write_together(database, put("a"), put("x" * 1_000_000), put("c"))

    # Then exactly those who were answered well are there
    there = await words(database)
    assert isinstance(answers[1], StoreError)
    assert [answer for answer in answers if isinstance(answer, str)] == there
    # And an integrity check finds the file whole, into which writes go when there is room again
    check = text("PRAGMA integrity_check")
    assert await database.read(lambda tx: tx.execute(check).scalar_one()) == "ok"
    await database.write(limit_pages(10_000))
    assert await database.write(put("y" * 1_000_000))


@pytest.mark.fault(24)
async def test_no_statement_after_a_full_disk_runs_outside_of_a_transaction(
    database: SqliteDatabase,
) -> None:
    # Given an operation that goes on after the disk was full, as it should not
    def stubborn(tx: Connection) -> None:
        try:
            put("x" * 1_000_000)(tx)
        finally:
            assert not driver(tx).in_transaction

    await database.write(limit_pages(2))

    # When it and another share a group
    answers = await write_together(database, stubborn, put("b"))

    # Then the other was not written on its own, without the group
    assert [answer for answer in answers if isinstance(answer, str)] == await words(database)


# ---- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.security(32)
async def test_the_files_are_their_owners_alone(database: SqliteDatabase, suffix: str) -> None:
    await database.write(put("a"))

    path = database.path.with_name(database.path.name + suffix)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_open_that_failed_can_be_tried_again(tmp_path: Path) -> None:
    # Given a file that is no database, and was refused
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, this is not a database. " * 100, encoding="utf-8")
    database = SqliteDatabase(path, ManualClock(START))
    with pytest.raises(StoreError, match="not a database"):
        await database.open()

    # When it is out of the way, and the same database is opened again
    path.unlink()
    async with stores.in_use(database):
        # Then it can be written
        assert await database.write(lambda tx: tx.execute(text("SELECT 7")).scalar_one()) == 7


# ---- opening and closing -----------------------------------------------------------------------


async def test_a_closed_database_refuses_to_write_and_to_read(database: SqliteDatabase) -> None:
    await database.close()

    with pytest.raises(StoreError, match="not open"):
        await database.write(put("a"))
    with pytest.raises(StoreError, match="not open"):
        await database.read(lambda tx: None)


async def test_closing_waits_for_what_was_given(database: SqliteDatabase) -> None:
    # Given writes that were given to the writer
    waiting = [asyncio.create_task(database.write(put(word))) for word in "abc"]
    started = asyncio.Event()
    asyncio.get_running_loop().call_soon(started.set)
    await started.wait()

    # When the database is closed at once
    await database.close()

    # Then they were all written and answered
    assert await asyncio.gather(*waiting) == ["a", "b", "c"]
    await database.open()
    assert await words(database) == ["a", "b", "c"]


async def test_a_write_that_comes_while_closing_is_refused_and_not_left_waiting(
    database: SqliteDatabase,
) -> None:
    # Given a database that is closing, but whose writer is still in the middle of something
    async with busy(database) as gate:
        closing = asyncio.create_task(database.close())
        started = asyncio.Event()
        asyncio.get_running_loop().call_soon(started.set)
        await started.wait()

        # When another write comes
        with pytest.raises(StoreError, match="not open"):
            async with asyncio.timeout(SOON_S):
                await database.write(put("late"))

        # Then what was under way is finished, and only that
        gate.set()
        await closing
    await database.open()
    assert await words(database) == []


async def test_those_who_open_a_new_file_together_all_succeed(tmp_path: Path) -> None:
    for number in range(20):
        # Given four databases on a file that is not there yet
        path = tmp_path / f"{number}.db"
        databases = [SqliteDatabase(path, ManualClock(START)) for _ in range(4)]

        # When all are opened at once
        answers = await asyncio.gather(*(each.open() for each in databases), return_exceptions=True)
        for each in databases:
            await each.close()

        # Then none was refused
        assert answers == [None] * 4


async def test_a_missing_folder_is_made_and_opening_and_closing_twice_is_fine(
    tmp_path: Path,
) -> None:
    database = SqliteDatabase(tmp_path / "new" / "folder" / "twice.db", ManualClock(START))

    await database.close()
    await database.open()
    await database.open()
    await database.close()
    await database.close()

    assert database.path.exists()


# ---- reading -----------------------------------------------------------------------------------


async def test_a_read_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(StoreError, match="readonly"):
        await database.read(put("a"))

    assert await words(database) == []
    # And the connection that it used is fit for the next
    assert await database.write(put("b")) == "b"


async def test_a_read_sees_what_was_committed_when_it_began(database: SqliteDatabase) -> None:
    # Given a read that looks twice, with a write of another in between
    await database.write(put("a"))
    began, written = threading.Event(), threading.Event()
    count = text("SELECT count(*) FROM words")

    def look_twice(tx: Connection) -> tuple[int, int]:
        first = tx.execute(count).scalar_one()
        began.set()
        assert written.wait(SOON_S)
        return first, tx.execute(count).scalar_one()

    reading = asyncio.create_task(database.read(look_twice))
    assert await asyncio.to_thread(began.wait, SOON_S)
    await database.write(put("b"))
    written.set()

    # Then it saw the same both times, and held up no writer
    assert await reading == (1, 1)


@pytest.mark.parametrize(
    "query",
    [
        lambda tx: tx.execute(text("SELECT * FROM nowhere")),
        lambda tx: execute(tx, "SELECT 1 FROM nowhere", []),
    ],
    ids=["SQLAlchemy's", "prepared"],
)
async def test_a_read_that_fails_tells_of_it_and_leaves_no_trace(
    database: SqliteDatabase, query: Operation[object]
) -> None:
    with pytest.raises(StoreError, match="no such table"):
        await database.read(query)

    assert await words(database) == []
