"""Databases of every kind for the suite, open and empty."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.base.clock import ManualClock
from headgate.store.dynamodb.table import DynamoTable
from headgate.store.sql.database import Database
from tests import dynamo, stores

#: AWS-compatible servers, on which a table of DynamoDB is made for each test.
EMULATORS = ("ministack", "moto")
KINDS = ("sqlite", "postgres", *EMULATORS)


@asynccontextmanager
async def any_database(
    request: pytest.FixtureRequest, kind: str, clock: ManualClock, folder: Path
) -> AsyncIterator[Database | DynamoTable]:
    """A database of that kind, open and empty; closed at the end."""
    if kind not in EMULATORS:
        async with stores.opened(stores.make_database(request, kind, clock, folder)()) as database:
            yield database
        return
    table = await dynamo.new_table(request.getfixturevalue(f"{kind}_address"), clock)
    try:
        yield table
    finally:
        await table.close()
