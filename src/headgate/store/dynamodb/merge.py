"""Queries over several partitions at once: the shards of an index, in one order."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import TypeVar

from headgate.store.dynamodb.attributes import Item
from headgate.store.dynamodb.definition import index_keys
from headgate.store.dynamodb.table import DynamoTable, KeyRange

T = TypeVar("T")

#: The most requests of one operation that are under way at the same time.
AT_ONCE_MAX = 16


async def gather(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await all, a few at a time; the first error is raised after all have ended."""
    free = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(each: Awaitable[T]) -> T:
        async with free:
            return await each

    done = await asyncio.gather(*(one(each) for each in work), return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
    return [result for result in done if not isinstance(result, BaseException)]


async def query_shards(
    table: DynamoTable, index: str, shards: Sequence[KeyRange], *, limit: int
) -> list[Item]:
    """The first `limit` items of these ranges of an index, in the order of its sort key."""
    found = await gather(table.query_all(each, limit=limit) for each in shards)
    sk = index_keys(index)[1]
    newest_first = any(each.newest_first for each in shards)
    ordered = merge(*found, key=lambda item: str(item[sk]), reverse=newest_first)
    return list(islice(ordered, limit))


async def count_shards(table: DynamoTable, shards: Sequence[KeyRange]) -> int:
    """How many items these ranges have together."""
    return sum(await gather(table.count(each) for each in shards))
