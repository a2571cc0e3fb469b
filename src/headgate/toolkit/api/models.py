"""Models for the OpenAPI document, derived from the engine's structs, so no field is written twice.

A response is the struct itself, encoded by msgspec; its model only describes it.
"""

from collections.abc import Mapping, Sequence
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from headgate.base.encoding import from_json, to_json
from headgate.flow.connections.view import ConnectionView
from headgate.flow.items.view import ItemView
from headgate.flow.users.view import ErasureView, UserView
from headgate.model.budget import BudgetUse, WindowUse
from headgate.model.user import Preferences

#: What clients know a struct as, where its name in the engine is another.
NAMES: Mapping[type[msgspec.Struct], str] = {
    BudgetUse: "BudgetDocument",
    ConnectionView: "ConnectionDocument",
    ErasureView: "ErasureDocument",
    ItemView: "ItemDocument",
    Preferences: "PreferencesDocument",
    UserView: "UserDocument",
    WindowUse: "WindowDocument",
}
#: The model of each struct, so that the document describes it once.
_models: dict[type[msgspec.Struct], type[BaseModel]] = {}


def model_of(struct: type[msgspec.Struct], example: object) -> type[BaseModel]:
    """Build the model of a struct, with its descriptions and an example.

    Build it before those of the structs that contain it: they refer to it.
    """
    _models[struct] = make_model(_name(struct), struct.__doc__, example, fields_of(struct))
    return _models[struct]


def page_model(name: str, doc: str, row: type[Any], *examples: object) -> type[BaseModel]:
    """Build the model of a page of such rows, which are structs or have a model."""
    cursor = Field(description="null on the last page.")
    fields = {"data": (_rows(row), ...), "next_cursor": (str | None, cursor)}
    return make_model(name, doc, {"data": examples, "next_cursor": None}, fields)


def list_model(name: str, doc: str, row: type[Any], example: object) -> type[BaseModel]:
    """Build the model of a list of all such rows."""
    return make_model(name, doc, {"data": [example]}, {"data": (_rows(row), ...)})


def _rows(row: type[Any]) -> GenericAlias:
    return GenericAlias(Sequence, (_type(row),))


def make_model(
    name: str, doc: str | None, example: object, fields: Mapping[str, Any]
) -> type[BaseModel]:
    """Build a model of these fields, all of them required."""
    sent: Any = from_json(to_json(example))
    config = ConfigDict(json_schema_extra={"examples": [sent]})
    return create_model(name, __doc__=doc, __config__=config, **fields)


def fields_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return pydantic's definition of each field of a struct."""
    fields = msgspec.structs.fields(struct)
    if not struct.__struct_config__.omit_defaults:
        return {each.name: (_type(each.type), ...) for each in fields}
    return {each.name: (_type(each.type), _default(each)) for each in fields}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """What a field that is left out of an answer stands for."""
    if field.default_factory is not msgspec.NODEFAULT:
        return Field(default_factory=field.default_factory)
    return ... if field.default is msgspec.NODEFAULT else field.default


def _part(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """Return the model of a nested struct."""
    if struct not in _models:
        fields = fields_of(struct)
        _models[struct] = create_model(_name(struct), __doc__=struct.__doc__, **fields)
    return _models[struct]


def _name(struct: type[msgspec.Struct]) -> str:
    return NAMES.get(struct, struct.__name__)


def _type(hint: Any) -> Any:
    """Return a field's type, with models in place of structs and pydantic's descriptions."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _part(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        text = next(each.description for each in parts[1:] if isinstance(each, msgspec.Meta))
        return Annotated[_type(parts[0]), Field(description=text)]
    if origin in (Union, UnionType):
        return Union[tuple(_type(each) for each in parts)]  # noqa: UP007 - made, not written
    return origin[tuple(_type(each) for each in parts)] if origin is not None else hint
