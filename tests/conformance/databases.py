"""Databases of every kind for the suite, open and empty."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection

from headgate.base.clock import ManualClock
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.sql.engine.database import Database, Operation
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests import dynamo, stores

#: AWS-compatible servers, on which a table of DynamoDB is made for each test.
EMULATORS = ("ministack", "moto")
KINDS = ("sqlite", "postgres", *EMULATORS)


#: For fixtures that are coroutines: the tests here share an event loop, and what is open in it.
shared_fixture = functools.partial(pytest_asyncio.fixture, loop_scope="session")

#: Opens a database, empty, and closes it at the end.
OpenDatabase = Callable[[], AbstractAsyncContextManager[Database | DynamoTable]]


def any_database(
    request: pytest.FixtureRequest, kind: str, clock: ManualClock, folder: Path
) -> OpenDatabase:
    """What opens a database of that kind.

    For a fixture that is not a coroutine: the servers start, and the schema is made, in a loop of
    their own.
    """
    if kind in EMULATORS:
        endpoint: str = request.getfixturevalue(f"{kind}_address")
        return lambda: _opened_table(endpoint, clock)
    make = stores.make_database(request, kind, clock, folder)
    return lambda: _opened_database(make)


@asynccontextmanager
async def _opened_table(endpoint: str, clock: ManualClock) -> AsyncIterator[DynamoTable]:
    table = await dynamo.new_table(endpoint, clock)
    try:
        yield table
    finally:
        await table.close()


@asynccontextmanager
async def _opened_database(make: stores.MakeDatabase) -> AsyncIterator[Database]:
    async with stores.opened(make()) as database:
        yield database


@asynccontextmanager
async def others(make: stores.MakeDatabase, count: int = 1) -> AsyncIterator[list[Database]]:
    """So many more on the same file or server, open, as other processes have them."""
    async with AsyncExitStack() as stack:
        made = [make() for _ in range(count)]
        for each in made:
            await each.open()
            stack.push_async_callback(each.close)
        yield made


def count_writes(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[Operation[Any]]:
    """Every transaction that is made from now on."""
    made: list[Operation[Any]] = []
    write = database.write

    async def counted(operation: Operation[Any]) -> Any:
        made.append(operation)
        return await write(operation)

    monkeypatch.setattr(database, "write", counted)
    return made


# ---- on Postgres, where two transactions run at once ---------------------------------------------


@asynccontextmanager
async def under_way(
    database: PostgresDatabase, write: Callable[[Connection], object]
) -> AsyncIterator[None]:
    """A transaction that has written, and commits when the block ends."""
    async with database._engine.begin() as connection:
        await connection.run_sync(write)
        yield


#: For tests of what SQLite has no need for: it has one writer at a time.
on_postgres = pytest.mark.parametrize("make_database", ["postgres"], indirect=True)
