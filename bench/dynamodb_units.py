"""What DynamoDB charges for, by its own rules and the sizes of the items: request units.

Emulators do not count truthfully, so each item that a request names is read before and after it.
A write costs a unit for each KB of the larger of the two, twice in a transaction, and one for each
entry of an index that appears, changes or goes. A read costs a unit for each 4 KB, or half if it
may be behind.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headgate.store.dynamodb.engine.attributes import from_attributes, item_size
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.dynamodb.engine.definition import INDEXES, PROJECTED, index_keys

KB = 1024
_OPERATIONS = ("Put", "Update", "Delete", "ConditionCheck")


class CountingClient(DynamoClient):
    """A client that adds up the units of its requests."""

    write_units = 0.0
    read_units = 0.0
    requests = 0
    counts = True

    async def call(
        self, client: Any, operation: str, request: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Send the request, and count it by what it has read or changed."""
        if not self.counts:
            return await super().call(client, operation, request)
        self.requests += 1
        keys = list(_written_keys(operation, request))
        before = [await self._find(client, key) for key in keys]
        answer = await super().call(client, operation, request)
        after = [await self._find(client, key) for key in keys]
        times = 2 if operation == "transact_write_items" else 1
        for old, new in zip(before, after, strict=True):
            self.write_units += times * _units(max(_size(old), _size(new)), KB)
            self.write_units += sum(_index_units(index, old, new) for index in INDEXES)
        self.read_units += _read_units(operation, request, answer)
        return answer

    async def _find(self, client: Any, key: Mapping[str, Any]) -> Mapping[str, Any]:
        found = await client.get_item(TableName=self.address.table, Key=key, ConsistentRead=True)
        item: Mapping[str, Any] = found.get("Item", {})
        return item


def _written_keys(operation: str, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    match operation:
        case "put_item":
            yield _key(request["Item"])
        case "update_item" | "delete_item":
            yield request["Key"]
        case "transact_write_items":
            for each in request["TransactItems"]:
                [write] = [each[name] for name in _OPERATIONS if name in each]
                yield write.get("Key") or _key(write["Item"])
        case "batch_write_item":
            for each in next(iter(request["RequestItems"].values())):
                put = each.get("PutRequest")
                yield _key(put["Item"]) if put else each["DeleteRequest"]["Key"]


def _key(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"pk": item["pk"], "sk": item["sk"]}


def _read_units(operation: str, request: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    match operation:
        case "get_item":
            return _units(_size(answer.get("Item", {})), 4 * KB)
        case "batch_get_item":
            tables: Iterable[list[Mapping[str, Any]]] = answer["Responses"].values()
            found = [_units(_size(item), 4 * KB) for items in tables for item in items]
            left = sum(len(each["Keys"]) for each in answer.get("UnprocessedKeys", {}).values())
            asked = sum(len(each["Keys"]) for each in request["RequestItems"].values())
            # To find that there is no such item costs a unit too.
            return sum(found) + asked - left - len(found)
        case "query":
            read = sum(_size(item) for item in answer.get("Items", ()))
            return _units(read, 4 * KB) * (1.0 if request.get("ConsistentRead") else 0.5)
        case _:
            return 0.0


def _units(size: int, unit: int) -> int:
    return max(1, math.ceil(size / unit))


def _index_units(index: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """The writes of an index: one to remove an entry, one to add or to change it."""
    then, now = _entry(index, old), _entry(index, new)
    if then == now:
        return 0
    keys = index_keys(index)
    moved = bool(then) and [then.get(key) for key in keys] != [now.get(key) for key in keys]
    return int(moved) + (_units(_size(now), KB) if now else 0)


def _entry(index: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    pk, sk = index_keys(index)
    if pk not in item or sk not in item:
        return {}
    names = ("pk", "sk", pk, sk, *PROJECTED.get(index, ()))
    return {name: item[name] for name in names if name in item}


def _size(item: Mapping[str, Any]) -> int:
    return item_size(from_attributes(item))
