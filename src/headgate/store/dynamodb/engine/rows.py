"""Structs as items: each field is an attribute of its name, and None is no attribute.

Texts, numbers and times are attributes that conditions and people can read; what has a structure
of its own is canonical JSON in a text.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from headgate.base.encoding import from_json, to_json
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.keys import time_text

AnyStruct = TypeVar("AnyStruct")

#: Types whose values are attributes as they are; times and days are texts.
_PLAIN = (str, int, bool, datetime, date)


class RowCodec(Generic[AnyStruct]):
    """Writes the values of one struct as attributes, and reads them back."""

    def __init__(self, kind: type[AnyStruct]) -> None:
        """Write and read values of `kind`, a msgspec struct."""
        self._kind = kind
        hints = get_type_hints(kind)
        self.fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
        # Where None is a value like others, it must be given.
        self._missing = {
            field.name: None
            for field in msgspec.structs.fields(kind)  # type: ignore[arg-type]
            if field.required
        }
        self._as_json = frozenset(name for name in self.fields if not _is_plain(hints[name]))

    def to_item(self, row: AnyStruct, names: Iterable[str] | None = None) -> Attributes:
        """The attributes of a row, or of these fields of it; None where there is to be none."""
        return {
            name: self.to_value(name, getattr(row, name))
            for name in (self.fields if names is None else names)
        }

    def to_value(self, name: str, value: Any) -> Any:
        """The value of the attribute of one field."""
        if value is None or name not in self._as_json:
            return plain(value)
        return to_json(value)

    def from_item(self, item: Mapping[str, Any]) -> AnyStruct:
        """The row of an item, whatever other attributes that has."""
        values = self._missing | {
            name: from_json(item[name]) if name in self._as_json else item[name]
            for name in self.fields
            if item.get(name) is not None
        }
        return msgspec.convert(values, self._kind)


def plain(value: Any) -> Any:
    """A value as an attribute: times and days become texts, enums their values."""
    match value:
        case Enum():
            return value.value
        case datetime():
            return time_text(value)
        case date():
            return value.isoformat()
        case _:
            return value


def only_set(item: Attributes) -> Attributes:
    """The attributes that are not None."""
    return {name: value for name, value in item.items() if value is not None}


@cache
def _is_plain(hint: Any) -> bool:
    if get_origin(hint) in {Union, UnionType}:
        return all(_is_plain(each) for each in get_args(hint) if each is not NoneType)
    return isinstance(hint, type) and issubclass(hint, _PLAIN)
