"""SQLite between processes, and without threads: whoever else writes to the file is waited for."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase, SqliteDatabase
from tests.processes import started
from tests.stores import START
from tests.unit.store.sql.word_writer import WORDS, write_words
from tests.unit.store.sql.words import put, put_and_fail, words, words_file


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open file with one table of words."""
    async with words_file(tmp_path / "words.db") as database:
        yield database


@pytest.mark.fault(25)
async def test_two_processes_write_to_one_file_and_both_succeed(database: SqliteDatabase) -> None:
    # Given this process, which has the file open, and another
    with started("tests.unit.store.sql.word_writer", str(database.path), "a") as writer:
        writer.wait_for_line("ready")

        # When both look and then write twenty words, one by one, at the same time
        writer.stdin.write("go\n")
        writer.stdin.flush()
        await write_words(database, "b")
        assert await asyncio.to_thread(writer.wait) == 0

    # Then all of them are there
    assert await words(database) == [
        f"{name}_{number:02d}" for name in "ab" for number in range(WORDS)
    ]


async def test_a_foreign_commit_is_told_from_ones_own(database: SqliteDatabase) -> None:
    # Given what the database says before anything happened
    before = await database.foreign_commits()

    # When this process commits, it says the same
    await database.write(put("a"))
    assert await database.foreign_commits() == before

    # When another connection does, it says something else
    other = sqlite3.connect(database.path)
    other.execute("INSERT INTO words VALUES ('b')")
    other.commit()
    other.close()
    assert await database.foreign_commits() != before


# ---- without threads ---------------------------------------------------------------------------


async def test_the_inline_database_does_the_same_in_the_calling_task(tmp_path: Path) -> None:
    # Given a database that runs in this very thread
    database = InlineSqliteDatabase(tmp_path / "inline.db", ManualClock(START))
    await database.open()
    await database.open()
    here = threading.get_ident()

    # When it is written to, with success and without, and read
    await database.migrate(lambda tx: tx.execute(text("CREATE TABLE words (word TEXT UNIQUE)")))
    assert await database.write(put("a")) == "a"
    with pytest.raises(ZeroDivisionError):
        await database.write(put_and_fail("bad"))
    with pytest.raises(StoreError, match="readonly"):
        await database.read(put("b"))
    seen = await database.read(lambda tx: list(tx.execute(text("SELECT word FROM words"))))

    # Then it behaves as the other does
    assert [tuple(row) for row in seen] == [("a",)]
    assert await database.write(lambda tx: threading.get_ident()) == here
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    await database.close()
    await database.close()
