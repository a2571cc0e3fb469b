"""SQLite between processes, and without threads: whoever else writes to the file is waited for."""

import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError
from headgate.store.sql.sqlite import InlineSqliteDatabase, SqliteDatabase
from tests.stores import SOON_S, START
from tests.unit.store.words import put, put_and_fail, words, words_file


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open file with one table of words."""
    async with words_file(tmp_path / "words.db") as database:
        yield database


_WRITER = """
import asyncio, sys
from pathlib import Path
from sqlalchemy import Connection, text
from headgate.base.clock import SystemClock
from headgate.store.sql.sqlite import SqliteDatabase

async def main():
    database = SqliteDatabase(Path(sys.argv[1]), SystemClock())
    await database.open()
    print("ready", flush=True)
    sys.stdin.readline()
    table = text("CREATE TABLE IF NOT EXISTS words (word TEXT UNIQUE)")
    await database.write(lambda tx: tx.execute(table))
    for number in range(20):
        word = {"word": f"{sys.argv[2]}_{number:02d}"}
        def read_and_write(tx):
            # Had it begun as a reader, it could not write after a commit of the other's.
            tx.execute(text("SELECT count(*) FROM words")).scalar_one()
            tx.execute(text("INSERT INTO words VALUES (:word)"), word)
        await database.write(read_and_write)
    await database.close()

asyncio.run(main())
"""


def start_writer(path: Path, name: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """Another process writes twenty words while the block runs, and has succeeded at its end."""
    writer = start_writer(path, "a")
    try:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
        yield
        assert writer.wait(SOON_S) == 0
    finally:
        writer.kill()
        writer.communicate()


def look_and_write(word: str) -> Callable[[Connection], None]:
    def run(tx: Connection) -> None:
        tx.execute(text("SELECT count(*) FROM words")).scalar_one()
        tx.execute(text("INSERT INTO words VALUES (:word)"), {"word": word})

    return run


@pytest.mark.fault(25)
async def test_two_processes_write_to_one_file_and_both_succeed(database: SqliteDatabase) -> None:
    # Given this process, which has the file open, and another

    # When both look and then write twenty words, one by one, at the same time
    with another_writer(database.path):
        for number in range(20):
            await database.write(look_and_write(f"b_{number:02d}"))

    # Then all of them are there
    expected = [f"{name}_{number:02d}" for name in "ab" for number in range(20)]
    assert await words(database) == expected


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
