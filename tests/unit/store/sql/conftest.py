"""Databases without tables, for tests of schemas and migrations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.base.clock import ManualClock
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests import stores


@pytest.fixture(params=["sqlite", "postgres"])
def make_blank(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> stores.MakeDatabase:
    """Makes databases on one and the same file or server that has no tables yet."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "blank.db", clock)
    server_url: str = request.getfixturevalue("postgres_url")
    url = stores.run_async(stores.create_postgres(server_url, "headgate_blank"))
    return lambda: PostgresDatabase(url, clock)


@pytest.fixture
async def blank(make_blank: stores.MakeDatabase) -> AsyncIterator[Database]:
    """An open database without tables; on Postgres the time is the server's."""
    async with stores.in_use(database := make_blank()):
        yield database
