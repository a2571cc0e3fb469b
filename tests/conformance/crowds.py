"""Databases with many rows, for tests that read query plans, and for benchmarks."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection

from headgate.base.clock import ManualClock
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests import stores
from tests.stores import START

Fill = Callable[[Connection], None]

_numbers = itertools.count(1)

STREAMS = "strava.streams"
#: Of every hundred items, three wait, one each is held, deferred, failed and stuck; the others have
#: ended. A connection has a thousand.
_ITEMS = """
    INSERT INTO headgate_items (
        id, collection, user_id, connection_id, external_id, lane, start_time, state, retry_count,
        deferrals, crashes, next_attempt_at, deferred_until, limited_at, token, lease_until,
        created_at, updated_at
    )
    SELECT
        'filled_' || n, 'strava.streams', 'user_' || (n / 1000), 'connection_' || (n / 1000),
        'external_' || n, CASE WHEN n % 300 = 0 THEN 'hot' ELSE 'cold' END, {later}, state,
        CASE WHEN n % 100 = 6 THEN 3 WHEN state = 'failed' THEN 1 ELSE 0 END, 0, 0,
        CASE WHEN n % 100 IN (0, 1, 2, 4, 5) THEN {now} END,
        CASE WHEN state = 'deferred' THEN {now} END,
        CASE WHEN n % 50 = 5 THEN {later} END, 1,
        CASE WHEN state = 'fetching' THEN {later} END, {now}, {now}
    FROM (
        SELECT n, CASE n % 100 WHEN 0 THEN 'pending' WHEN 1 THEN 'pending' WHEN 2 THEN 'pending'
            WHEN 3 THEN 'fetching' WHEN 4 THEN 'deferred' WHEN 5 THEN 'failed' WHEN 6 THEN 'failed'
            WHEN 7 THEN 'unavailable' ELSE 'success' END AS state
        FROM {numbers}
    ) AS numbered
"""


def fill_by(tx: Connection, *statements: str, rows: int) -> None:
    """INSERT … SELECT over so many `{numbers}`, at `{now}` or each a second `{later}`."""
    if tx.dialect.name == "postgresql":
        now = f"TIMESTAMPTZ '{START.isoformat()}'"
        later = f"{now} + n * INTERVAL '1 second'"
        numbers = f"generate_series(1, {rows}) AS n"
    else:
        now = str(int(START.timestamp() * 1_000_000))
        later = f"{now} + n * 1000000"
        counted = f"SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {rows}"
        numbers = f"(WITH RECURSIVE counted(n) AS ({counted}) SELECT n FROM counted)"
    for statement in statements:
        tx.exec_driver_sql(statement.format(now=now, later=later, numbers=numbers))


def fill_items(tx: Connection, *, rows: int) -> None:
    """So many items of the collection `STREAMS`."""
    fill_by(tx, _ITEMS, rows=rows)


def crowded_server(server_url: str, fill: Fill, *tables: str) -> str:
    """The address of a server's database, filled and analysed."""
    url = stores.copied_postgres(server_url, f"crowded_{next(_numbers)}")

    async def prepare() -> str:
        await _fill(PostgresDatabase(url, ManualClock(START)), fill)
        await stores.execute_on(url, f"VACUUM ANALYZE {', '.join(tables)}")
        return url

    return stores.run_async(prepare())


def crowded_sqlite(folder: Path, fill: Fill) -> Path:
    """A file, filled. It is not analysed: nothing in Headgate runs ANALYZE on SQLite."""
    path = Path(shutil.copyfile(stores.sqlite_template(), folder / "crowded.db"))

    async def prepare() -> Path:
        await _fill(SqliteDatabase(path, ManualClock(START)), fill)
        return path

    return stores.run_async(prepare())


async def _fill(database: Database, fill: Fill) -> None:
    await database.open()
    try:
        await database.write(fill)
    finally:
        await database.close()
