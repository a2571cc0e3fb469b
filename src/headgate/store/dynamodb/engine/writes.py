"""Conditions and writes, as values; `table.py` sends them.

In an expression `#name` is the attribute of that name and `:name` a value given by that name:

    Update(key, "SET #state = :new", Values(new="paused", old="running"), "#state = :old")
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.store.dynamodb.engine.attributes import (
    Attributes,
    Key,
    check_item,
    check_key,
    check_size,
    item_size,
    to_attribute,
    to_attributes,
    to_key,
)

_NAMES = re.compile(r"#[A-Za-z0-9_]+")
_VALUES = re.compile(r":[A-Za-z0-9_]+")

#: What DynamoDB allows: an expression, and the values after an IN.
EXPRESSION_BYTES_MAX = 4096
IN_MAX = 100

#: The condition that there is no item under the key.
IS_NEW = "attribute_not_exists(#pk)"
EXISTS = "attribute_exists(#pk)"


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """What all writes have: a condition, and the values of its expressions."""

    #: The write takes effect only if this holds; None: in any case.
    condition: str | None = None
    values: dict[str, Any] = {}

    @property
    def key(self) -> Key:
        """The key of the item."""
        raise NotImplementedError

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions by the names of their parameters."""
        return {} if self.condition is None else {"ConditionExpression": self.condition}

    @property
    def size(self) -> int:
        """About the bytes of the write, for the limit of a transaction."""
        return item_size(self.values) + sum(len(each) for each in self.key)

    def request(self) -> dict[str, Any]:
        """The parameters of the request, without the table; the limits are checked."""
        return expression_parameters(self.expressions, self.values)


class Put(Write, frozen=True, kw_only=True):
    """Writes a whole item."""

    item: Attributes

    @property
    def key(self) -> Key:
        """The key of the item."""
        return self.item["pk"], self.item["sk"]

    @property
    def size(self) -> int:
        """The bytes of the item."""
        return item_size(self.item)

    def request(self) -> dict[str, Any]:
        """The parameters of the request."""
        check_item(self.item)
        return {"Item": to_attributes(self.item), **super().request()}


class _KeyedWrite(Write, frozen=True, kw_only=True):
    """A write that names the item by its key."""

    at: Key

    @property
    def key(self) -> Key:
        """The key of the item."""
        return self.at

    def request(self) -> dict[str, Any]:
        """The parameters of the request."""
        check_key(self.at)
        return {"Key": to_key(self.at), **super().request()}


class Update(_KeyedWrite, frozen=True, kw_only=True):
    """Changes attributes of an item, which is made if there is none."""

    change: str

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions by the names of their parameters."""
        return {"UpdateExpression": self.change, **super().expressions}

    def request(self) -> dict[str, Any]:
        """The parameters of the request."""
        # What the item has besides is not known here; DynamoDB checks the whole.
        check_size(self.at, self.size)
        return super().request()


class Delete(_KeyedWrite, frozen=True, kw_only=True):
    """Deletes an item, if there is one."""


class Check(_KeyedWrite, frozen=True, kw_only=True):
    """Only demands that a condition holds, as part of a transaction."""


#: The name of each kind of write in a transaction.
IN_TRANSACTION: dict[type[Write], str] = {
    Put: "Put",
    Update: "Update",
    Delete: "Delete",
    Check: "ConditionCheck",
}


def expression_parameters(expressions: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
    """The parameters of these expressions: themselves, and the names and values in them."""
    for each in expressions.values():
        # DynamoDB refuses a longer one, and not every emulator does.
        assert len(each.encode()) <= EXPRESSION_BYTES_MAX, "an expression that is too long"
    text = " ".join(expressions.values())
    names = {each: each[1:] for each in _NAMES.findall(text)}
    used = {each: to_attribute(values[each[1:]]) for each in _VALUES.findall(text)}
    parameters: dict[str, Any] = dict(expressions)
    if names:
        parameters["ExpressionAttributeNames"] = names
    if used:
        parameters["ExpressionAttributeValues"] = used
    return parameters


def is_one_of(name: str, allowed: Sequence[str]) -> tuple[str, Attributes]:
    """The condition that an attribute has one of these values, and the values by their names."""
    values = {f"{name}_{place}": value for place, value in enumerate(allowed)}
    named = [f":{each}" for each in values]
    parts = [
        f"#{name} IN ({', '.join(named[begin : begin + IN_MAX])})"
        for begin in range(0, len(named), IN_MAX)
    ]
    return f"({' OR '.join(parts)})", values


def unchanged(item: Attributes, names: Sequence[str]) -> tuple[str, Attributes]:
    """The condition that these attributes are as in the item, and its values."""
    conditions = [EXISTS]
    seen: Attributes = {}
    for name in names:
        if item.get(name) is None:
            conditions.append(f"attribute_not_exists(#{name})")
        else:
            conditions.append(f"#{name} = :seen_{name}")
            seen[f"seen_{name}"] = item[name]
    return " AND ".join(conditions), seen


def set_and_remove(item: Attributes) -> str:
    """The change that sets these attributes, to values of the same names, and removes the Nones."""
    kept = [f"#{name} = :{name}" for name, value in item.items() if value is not None]
    gone = [f"#{name}" for name, value in item.items() if value is None]
    parts = [f"SET {', '.join(kept)}"] if kept else []
    if gone:
        parts.append(f"REMOVE {', '.join(gone)}")
    return " ".join(parts)
