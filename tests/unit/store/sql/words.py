"""A SQLite file with one table of words: what the tests of the SQLite database write into."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from headgate.base.clock import ManualClock
from headgate.store.sql.engine.database import Database, Operation
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests.stores import START, in_use


@asynccontextmanager
async def words_file(path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open file with the table in it."""
    async with in_use(database := SqliteDatabase(path, ManualClock(START))):
        await database.write(lambda tx: tx.execute(text("CREATE TABLE words (word TEXT UNIQUE)")))
        yield database


def put(word: str) -> Operation[str]:
    """Write one word, and answer with it."""

    def operation(tx: Connection) -> str:
        tx.execute(text("INSERT INTO words VALUES (:word)"), {"word": word})
        return word

    return operation


def put_and_fail(word: str) -> Operation[str]:
    """Write one word, and then raise."""

    def operation(tx: Connection) -> str:
        put(word)(tx)
        raise ZeroDivisionError(word)

    return operation


async def words(database: Database) -> list[str]:
    """Every word that was committed."""
    query = text("SELECT word FROM words ORDER BY word")
    return await database.read(lambda tx: list(tx.execute(query).scalars()))
