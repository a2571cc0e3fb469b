"""Lists of all rows of a kind, in the order of their ids, for operators.

Rows of a kind are in an index, spread over its shards. The index says which rows there are; the
rows themselves are read from the table, so that what is listed is what is there.
"""

from collections.abc import AsyncIterator, Callable

from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes, key_of
from headgate.store.dynamodb.engine.definition import BY_SYNC, index_keys
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange

#: How many rows are read at a time where nobody says how many are wanted.
PAGE = 100


def listed(kind: str, row_id: str) -> Attributes:
    """The attributes that put a row among all of its kind."""
    return keys.index_attributes(BY_SYNC, keys.join("all", kind, keys.shard_of(row_id)), row_id)


async def iterate(
    table: DynamoTable, kind: str, *, after: str | None = None, page: int = PAGE
) -> AsyncIterator[Attributes]:
    """The rows of the kind in the order of their ids, those after the id `after`."""
    sort_key = index_keys(BY_SYNC)[1]
    while True:
        ranges = [
            KeyRange(pk=each, first=after or None, index=BY_SYNC)
            for each in keys.shards("all", kind)
        ]
        # A range includes its first key, which was listed before.
        entries = await table.query_shards(BY_SYNC, ranges, limit=page + 1)
        new = [entry for entry in entries if entry[sort_key] != after]
        found = await table.get_many([key_of(entry) for entry in new])
        for entry in new:
            # The index may be behind: what was deleted since is left out.
            if key_of(entry) in found:
                yield found[key_of(entry)]
        if len(entries) <= page:
            return
        after = entries[-1][sort_key]


async def take(
    rows: AsyncIterator[Attributes],
    limit: int,
    *,
    where: Callable[[Attributes], bool] = lambda item: True,
) -> list[Attributes]:
    """The first `limit` of these rows for which `where` is true."""
    found: list[Attributes] = []
    if limit > 0:
        async for item in rows:
            if where(item):
                found.append(item)
            if len(found) == limit:
                break
    return found
