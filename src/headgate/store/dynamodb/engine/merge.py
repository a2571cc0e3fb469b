"""Queries over several partitions at once: the shards of an index, in one order."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice

from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import index_keys
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange


async def query_shards(
    table: DynamoTable, index: str, shards: Sequence[KeyRange], *, limit: int
) -> list[Attributes]:
    """The first `limit` items of these ranges of an index, in the order of its sort key."""
    found = await gather(table.query_all(each, limit=limit) for each in shards)
    sk = index_keys(index)[1]
    newest_first = any(each.newest_first for each in shards)
    ordered = merge(*found, key=lambda item: str(item[sk]), reverse=newest_first)
    return list(islice(ordered, limit))


async def count_shards(table: DynamoTable, shards: Sequence[KeyRange]) -> int:
    """How many items these ranges have together."""
    return sum(await gather(table.count(each) for each in shards))
