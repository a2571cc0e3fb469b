"""A worker in a process of its own: claims until nothing is left, and prints what it got.

Its arguments are `sqlite PATH` or `postgres URL`. It prints "ready" when it is
connected, waits for a line on its input, so that all begin together, and then prints one JSON list
of job ids for each claim.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from headgate.base.clock import SystemClock
from headgate.model.job import Lane
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests.store_bundles import SqlStores
from tests.stores import SYNCS

BATCH = 7


def make_database(kind: str, address: str) -> Database:
    if kind == "postgres":
        return PostgresDatabase(address, SystemClock())
    return SqliteDatabase(Path(address), SystemClock())


async def work(database: Database) -> None:
    await database.open()
    try:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        store = SqlStores(database, SYNCS)
        worker = f"worker_{os.getpid()}"
        while True:
            claimed = await store.jobs.claim(
                Lane.COLD, worker=worker, limit=BATCH, lease=timedelta(minutes=5)
            )
            if not claimed.jobs:
                return
            print(json.dumps([job.id for job in claimed.jobs]), flush=True)
    finally:
        await database.close()


if __name__ == "__main__":
    asyncio.run(work(make_database(*sys.argv[1:])))
