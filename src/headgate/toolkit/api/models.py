"""Models for the OpenAPI document, derived from the engine's structs, so no field is written twice.

A response is the struct itself, encoded by msgspec; its model only describes it.
"""

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from headgate.base.encoding import from_json, to_json


def model_of(struct: type[msgspec.Struct], example: object) -> type[BaseModel]:
    """Build the model of a struct, with its descriptions and an example."""
    return make_model(struct.__name__, struct.__doc__, example, fields_of(struct))


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


@cache
def _part(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """Return the model of a nested struct; cached, so that the document describes it once."""
    return create_model(struct.__name__, __doc__=struct.__doc__, **fields_of(struct))


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
