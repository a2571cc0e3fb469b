"""The units that DynamoDB charges for, as the benchmark counts them."""

from typing import Any

from bench.dynamodb_units import CountingClient
from headgate.base.clock import SystemClock
from headgate.base.ids import system_random
from headgate.store.dynamodb.engine.address import DynamoAddress

ROW = {"pk": {"S": "a"}, "sk": {"S": "b"}, "data": {"S": "x" * 5000}}


class _Server:
    """Answers with one of the items that are asked for, and leaves another undone."""

    async def batch_get_item(self, **request: Any) -> dict[str, Any]:
        [*_, last] = request["RequestItems"]["t"]["Keys"]
        return {"Responses": {"t": [ROW]}, "UnprocessedKeys": {"t": {"Keys": [last]}}}


async def test_a_read_of_what_is_not_there_is_charged_too() -> None:
    client = CountingClient(DynamoAddress("t"), SystemClock(), system_random())
    keys = [{"pk": {"S": "a"}, "sk": {"S": str(number)}} for number in range(4)]
    await client.call(_Server(), "batch_get_item", {"RequestItems": {"t": {"Keys": keys}}})
    # One of 5 KB, and two that are not there.
    assert (client.read_units, client.write_units) == (4, 0)
