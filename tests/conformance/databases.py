"""Databases of every kind for the suite, open and empty."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from headgate.base.clock import ManualClock
from headgate.store.dynamodb.table import DynamoTable
from headgate.store.sql.database import Database
from tests import dynamo, stores

#: AWS-compatible servers, on which a table of DynamoDB is made for each test.
EMULATORS = ("ministack", "moto")
KINDS = ("sqlite", "postgres", *EMULATORS)


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
