"""Limiters on every backend and the outbox, for tests that hold all to the same promises."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pytest_asyncio import is_async_test
from sqlalchemy import delete

from headgate.base.clock import ManualClock
from headgate.ports.limiter import Limiter
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.sql.budgets.limiter import SqlLimiter
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.engine.sqlite import SqliteDatabase
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.tables import budgets
from tests import kept, limiters, stores
from tests.conformance.crowds import crowded_server, crowded_sqlite
from tests.conformance.databases import EMULATORS, KINDS, OpenDatabase, any_database, shared_fixture
from tests.conformance.query_plans import Crowd
from tests.store_bundles import SqlStores, Stores, stores_in

#: Moto copies the whole table for each transaction.
TOO_MUCH_FOR_MOTO = {
    "test_claims_at_the_same_time_never_share_a_row",
    "test_a_batch_meets_single_requests_for_the_same_connections",
    "test_many_at_once_fare_as_one_after_another",
    "test_a_repeated_batch_writes_nothing",
    "test_every_list_is_what_its_filter_says",
}
#: All cases of rules that the model decides: those of SQL are enough for most changes.
THOROUGH_ON_EMULATORS = {
    "test_a_change_takes_effect_only_from_the_states_of_its_edge",
    "test_every_list_is_what_its_filter_says",
    "test_workers_that_renew_meanwhile_lose_nothing",
}
#: An emulator takes a hundred times as long for a row as DynamoDB does.
ROWS_ON_EMULATORS_MAX = 128


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a database does not have, and of what takes long on an emulator all but one.

    Of a test with further parameters, the second emulator runs the first set of them: both run
    every test.
    """
    seen: set[str] = set()
    items[:] = [item for item in items if _is_wanted(item, seen)]
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in THOROUGH_ON_EMULATORS:
            if set(EMULATORS) & set(item.callspec.params.values()):
                item.add_marker("thorough")
        if is_async_test(item) and "conformance" in item.nodeid:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def _is_wanted(item: pytest.Item, seen: set[str]) -> bool:
    if not isinstance(item, pytest.Function) or "conformance" not in item.nodeid:
        return True
    called = getattr(item, "callspec", None)
    values: dict[str, Any] = called.params if called else {}
    backends = [each for each in values.values() if each in EMULATORS]
    if not backends:
        return True
    if values.get("type_name", "job") != "job":
        return False
    if any(type(each) is int and each > ROWS_ON_EMULATORS_MAX for each in values.values()):
        return False
    name = f"{item.path}::{item.originalname}"
    if "moto" not in backends:
        return True
    if item.originalname in TOO_MUCH_FOR_MOTO:
        return False
    first = name not in seen
    seen.add(name)
    return first


@pytest.fixture(params=KINDS)
def open_any(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> OpenDatabase:
    """Opens a database of each kind in turn, empty."""
    return any_database(request, request.param, clock, tmp_path)


@shared_fixture(scope="session", autouse=True)
async def kept_open() -> AsyncIterator[None]:
    """Connections are kept from test to test, all of which share an event loop."""
    async with kept.keep_open():
        yield


@shared_fixture()
async def database(make_database: stores.MakeDatabase) -> AsyncIterator[Database]:
    """An open, migrated, empty database."""
    async with stores.opened(make_database()) as database:
        yield database


@pytest.fixture(params=EMULATORS)
def new_table(request: pytest.FixtureRequest, clock: ManualClock) -> OpenDatabase:
    """Opens a table of DynamoDB, empty, on each emulator in turn."""
    return any_database(request, request.param, clock, Path())


@shared_fixture()
async def dynamo_table(new_table: OpenDatabase) -> AsyncIterator[DynamoTable]:
    """An open, empty table of DynamoDB, on each emulator in turn."""
    async with new_table() as table:
        assert isinstance(table, DynamoTable)
        yield table


@shared_fixture()
async def any_opened(open_any: OpenDatabase) -> AsyncIterator[Database | DynamoTable]:
    """A database of each kind in turn, open and empty."""
    async with open_any() as database:
        yield database


@pytest.fixture
def any_stores(any_opened: Database | DynamoTable) -> Stores:
    """Empty stores, on each kind of database in turn."""
    return stores_in(any_opened, stores.SYNCS)


@pytest.fixture
def store(any_stores: Stores) -> Stores:
    """The same, for tests that have no other store."""
    return any_stores


@pytest.fixture
def items(database: Database) -> SqlItems:
    """Items on each SQL database in turn; there are none yet."""
    return SqlItems(database)


@pytest.fixture
def sql_store(database: Database) -> SqlStores:
    """An empty store, on each SQL database in turn: for what only those promise."""
    return SqlStores(database, stores.SYNCS)


@shared_fixture()
async def opened() -> AsyncIterator[limiters.Opened]:
    """Closes what the test opens."""
    made = limiters.Opened()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(params=limiters.KINDS)
def bench(
    request: pytest.FixtureRequest, opened: limiters.Opened, clock: ManualClock, tmp_path: Path
) -> limiters.Bench:
    """Each backend in turn, empty, at five past noon: far from the edge of any window."""
    clock.advance(300)
    match request.param:
        case "sqlite":
            template = request.getfixturevalue("store_file")
            return limiters.sqlite_bench(opened, template, tmp_path / "budgets.db", clock)
        case "postgres":
            return limiters.postgres_bench(opened, request.getfixturevalue("store_url"), clock)
        case "ministack" | "moto":
            endpoint = request.getfixturevalue(f"{request.param}_address")
            return limiters.dynamodb_bench(opened, request.param, endpoint, clock)
        case "redis":
            return limiters.redis_bench(opened, request.getfixturevalue("valkey_url"), clock)
        case _:
            return limiters.memory_bench(clock)


@shared_fixture()
async def limiter(bench: limiters.Bench) -> Limiter:
    """A limiter that has counted nothing."""
    made = await bench.another()
    if isinstance(made, SqlLimiter):
        await made._database.write(lambda tx: tx.execute(delete(budgets)))
    return made


@pytest.fixture(scope="module")
def crowded_url(request: pytest.FixtureRequest, postgres_url: str) -> str:
    """A server's database with the crowd of the file."""
    crowd: Crowd[Any] = request.module.CROWD
    return crowded_server(postgres_url, crowd.fill, *crowd.tables, *crowd.others)


@pytest.fixture(scope="module")
def crowded_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the crowd of the file."""
    return crowded_sqlite(tmp_path_factory.mktemp("plans"), request.module.CROWD.fill)


@pytest.fixture(params=["sqlite", "postgres"])
def crowded_database(request: pytest.FixtureRequest) -> Database:
    """Each of the two in turn, not yet open."""
    clock: ManualClock = request.module.CROWD.clock
    if request.param == "sqlite":
        return SqliteDatabase(request.getfixturevalue("crowded_file"), clock)
    url = request.getfixturevalue("crowded_url")
    return PostgresDatabase(url, clock, server_time=False)


@shared_fixture()
async def crowded(request: pytest.FixtureRequest, crowded_database: Database) -> AsyncIterator[Any]:
    """The store of the file's crowd, on each SQL database in turn."""
    async with stores.in_use(crowded_database):
        yield request.module.CROWD.store(crowded_database)


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> SqlOutbox:
    """An empty outbox, on each database in turn."""
    return SqlOutbox(database, clock)
