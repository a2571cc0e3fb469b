"""Items as DynamoDB's attribute values, and their size as DynamoDB counts it.

An item is a dict of plain values: text, numbers, booleans, bytes, None, and lists and dicts of
them. Its limits are checked here, because the emulators do not check all of them.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from headgate.base.errors import StoreError

Attributes = dict[str, Any]
#: The partition key and the sort key of an item.
Key = tuple[str, str]

PK, SK = "pk", "sk"
#: What DynamoDB allows: an item, its partition key and its sort key, in bytes.
ITEM_BYTES_MAX = 400 * 1024
PK_BYTES_MAX = 2048
SK_BYTES_MAX = 1024
#: A list or a dict counts these bytes besides its contents, and one for each element.
_CONTAINER_BYTES = 3


class ItemTooLarge(StoreError):
    """What should be stored is larger than DynamoDB allows for an item or for its key."""


def to_attribute(value: Any) -> dict[str, Any]:
    """The attribute value of a plain value; TypeError where there is none."""
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            # As plain text: an enum is a str too.
            return {"S": str(value)}
        case int():
            return {"N": str(value)}
        case float() if isfinite(value):
            return {"N": repr(value)}
        case bytes():
            return {"B": value}
        case None:
            return {"NULL": True}
        case list() | tuple():
            return {"L": [to_attribute(each) for each in value]}
        case dict():
            return {"M": to_attributes(value)}
        case _:
            raise TypeError(f"DynamoDB has no attribute value for {value!r}")


def to_attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    """The attribute values of an item."""
    return {name: to_attribute(value) for name, value in item.items()}


def from_attribute(attribute: Mapping[str, Any]) -> Any:
    """The plain value of an attribute value."""
    [(kind, value)] = attribute.items()
    match kind:
        case "N":
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case "B":
            return bytes(value)
        case "NULL":
            return None
        case "L":
            return [from_attribute(each) for each in value]
        case "M":
            return from_attributes(value)
        case _:
            return value


def from_attributes(attributes: Mapping[str, Any]) -> Attributes:
    """The item of these attribute values."""
    return {name: from_attribute(value) for name, value in attributes.items()}


def key_of(item: Mapping[str, Any]) -> Key:
    """The key of an item."""
    return item[PK], item[SK]


def to_key(key: Key) -> dict[str, Any]:
    """The attribute values of a key, after a check of its limits."""
    check_key(key)
    return {PK: {"S": key[0]}, SK: {"S": key[1]}}


def check_key(key: Key) -> None:
    """Refuse a key that DynamoDB would refuse."""
    for name, part, bytes_max in ((PK, key[0], PK_BYTES_MAX), (SK, key[1], SK_BYTES_MAX)):
        size = len(part.encode())
        if not 1 <= size <= bytes_max:
            raise ItemTooLarge(
                f"the {name} of an item is {size:,} bytes; DynamoDB allows 1 to {bytes_max:,}: "
                f"{part[:60]!r}"
            )


def can_exist(key: Key) -> bool:
    """Whether there can be an item under the key: DynamoDB refuses even to look for others."""
    try:
        check_key(key)
    except ItemTooLarge:
        return False
    return True


def cut_bound(sk: str | None) -> str | None:
    """The end of a range of sort keys, cut to what DynamoDB compares with.

    No sort key is longer, so a range from or to a longer one has the same items, but for one that
    is the cut text itself.
    """
    if sk is None:
        return None
    return sk.encode()[:SK_BYTES_MAX].decode(errors="ignore")


def size_of(value: Any) -> int:
    """The bytes of a value, as DynamoDB counts them."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode())
        case int() | float():
            # About one byte for two digits, and one more; never less than DynamoDB counts.
            return len(repr(value)) // 2 + 2
        case bytes():
            return len(value)
        case dict():
            return _CONTAINER_BYTES + item_size(value) + len(value)
        case _:
            return _CONTAINER_BYTES + sum(1 + size_of(each) for each in value)


def item_size(item: Mapping[str, Any]) -> int:
    """The bytes of an item: its attributes' names and values."""
    return sum(len(name.encode()) + size_of(value) for name, value in item.items())


def check_item(item: Mapping[str, Any]) -> None:
    """Refuse an item that DynamoDB would refuse."""
    check_key(key_of(item))
    check_size(key_of(item), item_size(item))


def check_size(key: Key, size: int) -> None:
    """Refuse an item of this size if DynamoDB would refuse it."""
    if size > ITEM_BYTES_MAX:
        raise ItemTooLarge(
            f"the item {key[0]!r} / {key[1][:60]!r} is {size:,} bytes; "
            f"DynamoDB allows {ITEM_BYTES_MAX:,}"
        )
