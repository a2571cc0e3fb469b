"""Tables of DynamoDB for the tests, on the emulators."""

import itertools
import random
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from typing import Any

from aiobotocore.session import AioSession

from headgate.base.clock import Clock
from headgate.base.encoding import from_json
from headgate.model.job import Job
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.address import DynamoAddress
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import from_attributes
from headgate.store.dynamodb.engine.definition import definition
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import Put, Update, set_and_remove
from headgate.store.dynamodb.jobs.rows import CODEC, place_by_state
from tests.dynamo_faults import FaultyClient
from tests.emulators import CREDENTIALS, PROCESS
from tests.store_bundles import DynamoStores

_numbers = itertools.count(1)


class PlainSession(AioSession):
    """Makes clients of servers that speak plain HTTP.

    A client loads the certificates of all authorities before its first request, which takes longer
    than most tests of an empty table.
    """

    def create_client(self, *args: Any, **options: Any) -> Any:
        """A client that would trust anybody, if it had to."""
        make: Any = super().create_client
        return make(*args, verify=False, **options)


@cache
def session() -> AioSession:
    """What all clients of this process share, with credentials that the emulators accept."""
    made = PlainSession()
    made.set_credentials(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    made.set_config_variable("region", CREDENTIALS["AWS_DEFAULT_REGION"])
    return made


def table_on(endpoint: str, name: str, clock: Clock, *, server_time: bool = False) -> DynamoTable:
    """A table of that name, not open yet; its client can fail on purpose."""
    address = DynamoAddress(name, endpoint=endpoint)
    # Of each client its own: two with the same would use the same tokens for their transactions.
    rng = random.Random(next(_numbers))
    client = FaultyClient(address, clock, rng, server_time=server_time, session=session())
    return DynamoTable(client)


async def new_table(endpoint: str, clock: Clock) -> DynamoTable:
    """A new, empty, open table, where nothing expires by itself: that is by the real time."""
    table = table_on(endpoint, f"headgate_{PROCESS}_{next(_numbers)}", clock)
    await table.open()
    await table.client.send("create_table", {"TableName": table.name, **definition()})
    return table


def client_of(table: DynamoTable) -> FaultyClient:
    """The client of a table of these tests."""
    assert isinstance(table.client, FaultyClient)
    return table.client


async def contents(table: DynamoTable) -> dict[str, list[tuple[Any, ...]]]:
    """Every item, by the name of the table that it would be a row of in SQL."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _TABLES.values()}
    for (pk, sk), attributes in sorted((await scan(table)).items()):
        item = from_attributes(attributes)
        kind = "event" if sk.startswith("event#") else pk.partition("#")[0]
        name = _TABLES.get(kind, kind)
        rows.setdefault(name, []).extend(_rows(name, pk, item))
    return rows


#: The tables of what tests look at one by one.
_TABLES = {
    "job": "jobs",
    "event": "job_events",
    "record": "records",
    "coverage": "coverage",
    "mark": "high_water_marks",
}


def _rows(name: str, pk: str, item: dict[str, Any]) -> list[tuple[Any, ...]]:
    match name:
        case "records":
            _, sync, connection_id = map(keys.unescape, pk.split("#"))
            columns = (from_json(item["data"]), item["hash"])
            times = (_time(item["created_at"]), _time(item["updated_at"]))
            return [(sync, connection_id, keys.from_own_key(item["sk"]), *columns, *times)]
        case "coverage":
            day = date.fromisoformat(item["day"])
            return [(item["sync"], item["connection_id"], day, *sorted(map(str, item.items())))]
        case "high_water_marks":
            value = from_json(item["value"])
            at = _time(item["updated_at"])
            return [(item["sync"], item["connection_id"], value, item["job_id"], at)]
        case "job_events":
            return [(item["pk"], item["sk"], item["at"], text) for text in item["told"]]
        case _:
            return [tuple(sorted((key, str(value)) for key, value in item.items()))]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def rewrite(store: DynamoStores, job: Job) -> None:
    """Write the job over its item, past all rules."""
    written = {**CODEC.to_item(job), **place_by_state(job)}
    update = Update(at=keys.job(job.id), change=set_and_remove(written), values=written)
    await store.table.write(update)


async def fill(table: DynamoTable, items: Sequence[dict[str, Any]]) -> None:
    """Write these items."""
    await gather(table.write(Put(item=item)) for item in items)


async def scan(table: DynamoTable) -> dict[tuple[str, str], dict[str, Any]]:
    """Every item of the table: compare two to see that nothing was written between."""
    items: dict[tuple[str, str], dict[str, Any]] = {}
    more: dict[str, Any] = {}
    client_of(table).may_scan = True
    try:
        while True:
            found = await table.client.send("scan", {"TableName": table.name, **more})
            for item in found["Items"]:
                items[item["pk"]["S"], item["sk"]["S"]] = item
            if not found.get("LastEvaluatedKey"):
                return items
            more = {"ExclusiveStartKey": found["LastEvaluatedKey"]}
    finally:
        client_of(table).may_scan = False
