"""The fields of a struct, from which models and options are derived."""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

import msgspec


class StructField(NamedTuple):
    """A field that is declared as `name: Annotated[kind | None, Meta(description=help)]`."""

    name: str
    #: Its type without None; of a text with choices, as in `Annotated[str, Lane, Meta(…)]`, those.
    kind: Any
    #: None if there is none, or if it is made anew.
    default: Any
    help: str
    #: The lowest number.
    least: int | None

    @property
    def hint(self) -> Any:
        """The type of its values, the default among them."""
        return self.kind | None if self.default is None else self.kind


def struct_fields(struct: type[msgspec.Struct]) -> Sequence[StructField]:
    """The fields in the order of their declaration."""
    return [_field(each) for each in msgspec.structs.fields(struct)]


def _field(field: msgspec.structs.FieldInfo) -> StructField:
    kind, *choices, meta = get_args(field.type)
    if get_origin(kind) is UnionType:
        [kind] = [each for each in get_args(kind) if each is not NoneType]
    default = None if field.default is msgspec.NODEFAULT else field.default
    if choices:
        [kind] = choices
        default = default and kind(default)
    return StructField(field.name, kind, default, meta.description, (meta.extra or {}).get("least"))
