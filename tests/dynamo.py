"""Tables of DynamoDB for the tests, on the emulators."""

import itertools
import random
from functools import cache
from typing import Any

from aiobotocore.session import AioSession, get_session

from headgate.base.clock import Clock
from headgate.store.dynamodb.address import DynamoAddress
from headgate.store.dynamodb.table import DynamoTable
from tests.dynamo_faults import FaultyClient
from tests.emulators import CREDENTIALS

_numbers = itertools.count(1)


@cache
def session() -> AioSession:
    """What all clients of this process share, with credentials that the emulators accept."""
    made = get_session()
    made.set_credentials(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    made.set_config_variable("region", CREDENTIALS["AWS_DEFAULT_REGION"])
    return made


def table_on(endpoint: str, name: str, clock: Clock, *, server_time: bool = False) -> DynamoTable:
    """A table of that name, not open yet; its client can fail on purpose."""
    address = DynamoAddress(name, endpoint=endpoint)
    client = FaultyClient(
        address, clock, random.Random(name), server_time=server_time, session=session()
    )
    return DynamoTable(client)


async def new_table(endpoint: str, clock: Clock) -> DynamoTable:
    """A new, empty, open table."""
    table = table_on(endpoint, f"headgate_{next(_numbers)}", clock)
    await table.open()
    await table.create()
    return table


def client_of(table: DynamoTable) -> FaultyClient:
    """The client of a table of these tests."""
    assert isinstance(table.client, FaultyClient)
    return table.client


async def scan(table: DynamoTable) -> dict[tuple[str, str], dict[str, Any]]:
    """Every item of the table: compare two to see that nothing was written between."""
    items: dict[tuple[str, str], dict[str, Any]] = {}
    more: dict[str, Any] = {}
    while True:
        found = await table.client.send("scan", {"TableName": table.name, **more})
        for item in found["Items"]:
            items[item["pk"]["S"], item["sk"]["S"]] = item
        if not found.get("LastEvaluatedKey"):
            return items
        more = {"ExclusiveStartKey": found["LastEvaluatedKey"]}
