"""One DynamoDB table: reads, writes and transactions of items, within DynamoDB's limits."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from headgate.base.errors import SchemaBehind, StoreError, StoreUnavailable
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import (
    Attributes,
    ItemTooLarge,
    Key,
    can_exist,
    cut_bound,
    from_attributes,
    key_of,
    to_key,
)
from headgate.store.dynamodb.engine.client import TRIES_MAX, DynamoClient
from headgate.store.dynamodb.engine.definition import definition, index_keys, time_to_live
from headgate.store.dynamodb.engine.writes import (
    IN_TRANSACTION,
    Delete,
    Put,
    Update,
    Write,
    expression_parameters,
)

#: What DynamoDB allows in one request.
TRANSACTION_ITEMS_MAX = 100
TRANSACTION_BYTES_MAX = 4 * 1024 * 1024
BATCH_READ_MAX = 100
BATCH_WRITE_MAX = 25
#: Below this is every `Limit`: its type has 32 bits.
_LIMIT_END = 2**31
#: Of how many items a page of a filtered query is at most: most pages reach a megabyte before.
FILTERED_PAGE_MAX = 10_000
#: A table is made within seconds; looked at so often, and for so long.
_CREATE_LOOKS_MAX = 120
_CREATE_LOOK_S = 0.5


class QueryPage(msgspec.Struct, frozen=True):
    """Items of a query in their order, and where to go on; None: there are no more."""

    items: list[Attributes]
    after: Attributes | None


class KeyRange(msgspec.Struct, frozen=True, kw_only=True):
    """Which items of one partition a query reads, of the table or of an index."""

    pk: str
    #: The first and the last sort key, both included; None: from the beginning, to the end.
    first: str | None = None
    last: str | None = None
    index: str | None = None
    #: Which of them are returned, in the language of `writes.py`; all are read and paid for.
    where: str | None = None
    values: dict[str, Any] = {}
    newest_first: bool = False
    #: Whether only the keys of the items are returned; the items are read and paid for.
    keys_only: bool = False

    def parameters(self) -> dict[str, Any]:
        """The parameters of the query."""
        # DynamoDB refuses these, and not every emulator does.
        assert self.pk and self.first != "" and self.last != "", "an empty key"
        assert self.first is None or self.last is None or self.first <= self.last, "no range"
        pk, sk = ("pk", "sk") if self.index is None else index_keys(self.index)
        condition, values = f"#{pk} = :pk", {"pk": self.pk, **self.values}
        match self.first, self.last:
            case None, None:
                pass
            case str(), None:
                condition, values = f"{condition} AND #{sk} >= :first", values
            case None, str():
                condition = f"{condition} AND #{sk} <= :last"
            case _:
                condition = f"{condition} AND #{sk} BETWEEN :first AND :last"
        expressions = {"KeyConditionExpression": condition}
        if self.where is not None:
            expressions["FilterExpression"] = self.where
        if self.keys_only:
            expressions["ProjectionExpression"] = "#pk, #sk"
        bounds = {"first": cut_bound(self.first), "last": cut_bound(self.last)}
        found = expression_parameters(expressions, {**values, **bounds})
        found["ScanIndexForward"] = not self.newest_first
        if self.index is None:
            found["ConsistentRead"] = True
        else:
            found["IndexName"] = self.index
        return found


class DynamoTable:
    """A table. Open it in the event loop that uses it, and close it there."""

    def __init__(self, client: DynamoClient) -> None:
        """Use the table of the client's address."""
        self.client = client
        self.name = client.address.table

    async def open(self) -> None:
        """Open the client; the table need not exist yet."""
        await self.client.open()

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()

    def now(self) -> datetime:
        """The store's time."""
        return self.client.now()

    async def create(self) -> bool:
        """Make the table if there is none, and wait until it can be used; whether it was made."""
        made = await self._find_status() is None and await self._create()
        for _ in range(_CREATE_LOOKS_MAX):
            if await self._find_status() == "ACTIVE":
                break
            await self.client.sleep(_CREATE_LOOK_S)
        else:
            raise StoreUnavailable(f"the table {self.name!r} is not ready yet")
        # Whoever made the table may have died before this.
        found = await self._send("describe_time_to_live", {})
        if found["TimeToLiveDescription"]["TimeToLiveStatus"] in {"DISABLED", "DISABLING"}:
            rule = {"TimeToLiveSpecification": time_to_live()}
            await self._send("update_time_to_live", rule, repeat=False)
        return made

    async def _create(self) -> bool:
        """Make the table; False if another does so at this moment."""
        try:
            await self._send("create_table", definition(), repeat=False)
        except StoreError:
            if await self._find_status() is None:
                raise
            return False
        return True

    async def _find_status(self) -> str | None:
        try:
            found = await self._send("describe_table", {})
        except SchemaBehind:
            return None
        return str(found["Table"]["TableStatus"])

    # ---- reading -------------------------------------------------------------------------------

    async def get(self, key: Key) -> Attributes | None:
        """The item under the key, as it is now."""
        if not can_exist(key):
            return None
        found = await self._send("get_item", {"Key": to_key(key), "ConsistentRead": True})
        return from_attributes(found["Item"]) if found.get("Item") else None

    async def get_many(
        self, keys: Sequence[Key], attributes: Sequence[str] | None = None
    ) -> dict[Key, Attributes]:
        """The items under these keys, as they are now; any number of them.

        With `attributes`, only these and the key of each.
        """
        wanted = [key for key in dict.fromkeys(keys) if can_exist(key)]
        found = await gather(
            self._get_some(wanted[begin : begin + BATCH_READ_MAX], attributes)
            for begin in range(0, len(wanted), BATCH_READ_MAX)
        )
        return {key_of(item): item for items in found for item in items}

    async def _get_some(
        self, keys: Sequence[Key], attributes: Sequence[str] | None
    ) -> Sequence[Attributes]:
        request: dict[str, Any] = {"ConsistentRead": True}
        if attributes is not None:
            names = ", ".join(f"#{name}" for name in ("pk", "sk", *attributes))
            request |= expression_parameters({"ProjectionExpression": names}, {})
        items: list[Attributes] = []
        left = [to_key(key) for key in keys]
        for number in range(TRIES_MAX):
            wanted = {self.name: {"Keys": left, **request}}
            answer = await self.client.send("batch_get_item", {"RequestItems": wanted})
            found = answer["Responses"].get(self.name, ())
            items += [from_attributes(item) for item in found]
            left = answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
            if not left:
                return items
            await self.client.rest(number)
        raise StoreUnavailable("DynamoDB leaves reads of a batch undone")

    async def query(
        self, which: KeyRange, *, limit: int | None = None, after: Attributes | None = None
    ) -> QueryPage:
        """One page of a partition, of at most `limit` items or one megabyte; then after it."""
        request = which.parameters()
        if limit is not None:
            # DynamoDB refuses any other, and the emulators do not.
            assert 1 <= limit < _LIMIT_END, "no limit of a page"
            request["Limit"] = limit
        if after is not None:
            request["ExclusiveStartKey"] = {name: {"S": value} for name, value in after.items()}
        answer = await self._send("query", request)
        last = answer.get("LastEvaluatedKey")
        return QueryPage(
            [from_attributes(item) for item in answer["Items"]],
            from_attributes(last) if last else None,
        )

    async def query_all(self, which: KeyRange, *, limit: int) -> list[Attributes]:
        """The first `limit` items of a partition that match, in as many pages as it takes."""
        items: list[Attributes] = []
        after: Attributes | None = None
        # With a filter, a page holds as many as are read, not as many as match. Most do, so the
        # first page is no larger than without; if they do not, the pages grow up to a maximum.
        at_most = limit
        while len(items) < limit:
            page = await self.query(which, limit=at_most, after=after)
            items += page.items
            after = page.after
            if after is None:
                break
            at_most = min(10 * at_most, FILTERED_PAGE_MAX) if which.where else limit - len(items)
        return items[:limit]

    async def count(self, which: KeyRange) -> int:
        """How many items of the partition match."""
        request = {**which.parameters(), "Select": "COUNT"}
        counted = 0
        while True:
            answer = await self._send("query", request)
            counted += int(answer["Count"])
            if not answer.get("LastEvaluatedKey"):
                return counted
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def query_shards(
        self, index: str, shards: Sequence[KeyRange], *, limit: int
    ) -> list[Attributes]:
        """The first `limit` items of these ranges of an index, in the order of its sort key."""
        found = await gather(self.query_all(each, limit=limit) for each in shards)
        sk = index_keys(index)[1]
        newest_first = any(each.newest_first for each in shards)
        ordered = merge(*found, key=lambda item: str(item[sk]), reverse=newest_first)
        return list(islice(ordered, limit))

    async def count_shards(self, shards: Sequence[KeyRange]) -> int:
        """How many items these ranges have together."""
        return sum(await gather(self.count(each) for each in shards))

    # ---- writing -------------------------------------------------------------------------------

    async def write(self, write: Put | Update | Delete) -> Attributes | None:
        """Make one write; returns the item after an Update, and the one before a Delete.

        Raises ConditionFailed, and StoreUnavailable if it may or may not have taken effect.
        """
        request = write.request()
        operation = f"{IN_TRANSACTION[type(write)].lower()}_item"
        if not isinstance(write, Put):
            request["ReturnValues"] = "ALL_NEW" if isinstance(write, Update) else "ALL_OLD"
        if write.condition is not None:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        answer = await self._send(operation, request, repeat=False)
        found = answer.get("Attributes")
        return from_attributes(found) if found else None

    async def transact(self, writes: Sequence[Write]) -> None:
        """Make all of the writes, or none: at most a hundred, of 4 MB, each of another item.

        Raises ConditionFailed, and StoreUnavailable if they may or may not have taken effect.
        """
        check_transaction(writes)
        items = [
            {
                IN_TRANSACTION[type(write)]: {
                    "TableName": self.name,
                    **write.request(),
                    **(
                        {}
                        if write.condition is None
                        else {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
                    ),
                }
            }
            for write in writes
        ]
        # DynamoDB knows a transaction that it has made by this token, for ten minutes.
        token = str(uuid.UUID(int=self.client.rng.getrandbits(128), version=4))
        request = {"TransactItems": items, "ClientRequestToken": token}
        await self.client.send("transact_write_items", request)

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Delete any number of items, each for itself and in no order."""
        requests = [{"DeleteRequest": {"Key": to_key(key)}} for key in keys]
        await gather(
            self._delete_some(requests[begin : begin + BATCH_WRITE_MAX])
            for begin in range(0, len(requests), BATCH_WRITE_MAX)
        )

    async def _delete_some(self, requests: Sequence[Mapping[str, Any]]) -> None:
        left: Sequence[Mapping[str, Any]] = requests
        for number in range(TRIES_MAX):
            wanted = {"RequestItems": {self.name: left}}
            answer = await self.client.send("batch_write_item", wanted)
            left = answer.get("UnprocessedItems", {}).get(self.name, [])
            if not left:
                return
            await self.client.rest(number)
        raise StoreUnavailable("DynamoDB leaves deletions of a batch undone")

    async def _send(
        self, operation: str, request: Mapping[str, Any], *, repeat: bool = True
    ) -> Any:
        """Send a request about this table."""
        return await self.client.send(operation, {"TableName": self.name, **request}, repeat=repeat)


def check_transaction(writes: Sequence[Write]) -> None:
    """Refuse a transaction that DynamoDB would refuse."""
    size = sum(write.size for write in writes)
    if len(writes) > TRANSACTION_ITEMS_MAX or size > TRANSACTION_BYTES_MAX:
        raise ItemTooLarge(
            f"a transaction of {len(writes)} items and {size:,} bytes; DynamoDB allows "
            f"{TRANSACTION_ITEMS_MAX} and {TRANSACTION_BYTES_MAX:,}"
        )
    assert len({write.key for write in writes}) == len(writes), "an item twice in a transaction"
