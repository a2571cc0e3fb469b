"""A process that writes words to a SQLite file, each after a look at what is there.

It prints "ready" when the file is open, and begins when it is told anything.
"""

import asyncio
import sys
from pathlib import Path

from sqlalchemy import Connection, text

from headgate.base.clock import SystemClock
from headgate.store.sql.engine.sqlite import SqliteDatabase

WORDS = 20


async def write_words(database: SqliteDatabase, name: str) -> None:
    """One by one; a write that had begun as a reader could not go on after another's commit."""
    for number in range(WORDS):
        word = {"word": f"{name}_{number:02d}"}

        def look_and_write(tx: Connection, word: dict[str, str] = word) -> None:
            tx.execute(text("SELECT count(*) FROM words")).scalar_one()
            tx.execute(text("INSERT INTO words VALUES (:word)"), word)

        await database.write(look_and_write)


async def main(path: str, name: str) -> None:
    """Write, when it is time."""
    database = SqliteDatabase(Path(path), SystemClock())
    await database.open()
    print("ready", flush=True)
    sys.stdin.readline()
    await write_words(database, name)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
