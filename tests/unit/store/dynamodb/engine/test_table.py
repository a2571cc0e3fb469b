"""The pages of a query: how many items each is asked for."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.store.dynamodb.engine.address import DynamoAddress
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.dynamodb.engine.table import FILTERED_PAGE_MAX, DynamoTable, KeyRange
from tests.unit.values import NOW

PAGES = 40


class Endless(DynamoClient):
    """Answers a query with pages that have nothing, as a filter of large items does."""

    def __init__(self) -> None:
        super().__init__(DynamoAddress("table"), ManualClock(NOW), random.Random(1))
        self.limits: list[int] = []

    async def send(self, operation: str, request: Mapping[str, Any], *, repeat: bool = True) -> Any:
        self.limits.append(request["Limit"])
        last = {"pk": {"S": "a"}, "sk": {"S": "b"}} if len(self.limits) < PAGES else None
        return {"Items": [], "LastEvaluatedKey": last}


@pytest.mark.parametrize("limit", [1, 50, 20_000])
async def test_the_pages_of_a_filtered_query_grow_up_to_a_maximum(limit: int) -> None:
    client = Endless()
    which = KeyRange(pk="a", where="#n = :n", values={"n": 1})

    assert await DynamoTable(client).query_all(which, limit=limit) == []

    assert client.limits[:2] == [limit, min(10 * limit, FILTERED_PAGE_MAX)]
    assert client.limits[-1] == FILTERED_PAGE_MAX
    assert len(client.limits) == PAGES


@pytest.mark.parametrize("limit", [-1, 0, 2**31])
async def test_a_limit_that_dynamodb_refuses_is_not_sent(limit: int) -> None:
    client = Endless()
    with pytest.raises(AssertionError):
        await DynamoTable(client).query(KeyRange(pk="a"), limit=limit)
    assert client.limits == []
