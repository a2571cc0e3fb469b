"""Fixtures that every test may ask for."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headgate.base import log
from headgate.base.clock import ManualClock, SystemClock
from headgate.store.sql.database import Database
from headgate.store.sql.postgres import PostgresDatabase
from headgate.store.sql.sqlite import SqliteDatabase
from headgate.store.sql.store import SqlStore
from tests import servers, stores
from tests.profiles import pytest_runtest_setup as pytest_runtest_setup


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    """The engine's own events are not printed; a test that reads them sends them elsewhere."""
    log.configure(SystemClock(), json=True, level="critical")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.PostgresServer]:
    """A PostgreSQL of this process's own, started when a test first asks for it."""
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[servers.ValkeyServer]:
    """A Valkey of this process's own; a test that stops it starts one for itself instead."""
    with servers.valkey() as server:
        yield server


@pytest.fixture(scope="session")
def store_url(postgres_server: servers.PostgresServer) -> str:
    """A migrated database on that server, for the stores of all tests, one after another."""
    return stores.run_async(stores.migrated_postgres(postgres_server.url, "headgate_store"))


@pytest.fixture(scope="session")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied by each test that wants one."""
    path = tmp_path_factory.mktemp("store") / "migrated.db"
    return stores.run_async(stores.migrated_sqlite(path))


@pytest.fixture
def clock() -> ManualClock:
    """The store's time: it stands still until a test moves it."""
    return ManualClock(stores.START)


@pytest.fixture(params=["sqlite", "postgres"])
def make_database(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> stores.MakeDatabase:
    """Makes databases, not yet open, on one and the same file or server."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("store_url")
        return lambda: PostgresDatabase(url, clock, server_time=False)
    path = tmp_path / "headgate.db"
    shutil.copyfile(request.getfixturevalue("store_file"), path)
    return lambda: SqliteDatabase(path, clock)


@pytest.fixture
async def database(make_database: stores.MakeDatabase) -> AsyncIterator[Database]:
    """An open, migrated, empty database."""
    database = make_database()
    await database.open()
    try:
        if isinstance(database, PostgresDatabase):
            await stores.empty(database)
        yield database
    finally:
        await database.close()


@pytest.fixture
def store(database: Database) -> SqlStore:
    """An empty store, on each database in turn."""
    return SqlStore(database)
