"""Models for the OpenAPI document, derived from structs."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.toolkit.api.models import fields_of, make_model, model_of


class Leaf(msgspec.Struct):
    """A part."""

    name: Annotated[str, Meta(description="What it is called.")] = ""


class Tree(msgspec.Struct):
    """The whole."""

    planted: date
    leaves: Sequence[Leaf] = ()
    best: Annotated[Leaf | None, Meta(description="null: none.")] = None
    counts: Mapping[str, int] = {}


EXAMPLE = Tree(planted=date(2026, 1, 1), leaves=[Leaf("a")], best=Leaf("b"))


def test_a_model_has_the_fields_descriptions_and_words_of_its_struct() -> None:
    schema = model_of(Tree, EXAMPLE).model_json_schema()

    assert (schema["title"], schema["description"]) == ("Tree", "The whole.")
    # An answer always has every field, whatever the struct's defaults are.
    assert schema["required"] == list(schema["properties"]) == list(Tree.__struct_fields__)
    assert schema["properties"]["best"]["description"] == "null: none."
    assert schema["properties"]["planted"]["format"] == "date"
    leaf = schema["$defs"]["Leaf"]
    assert leaf["description"] == "A part."
    assert leaf["properties"]["name"]["description"] == "What it is called."
    assert list(schema["$defs"]) == ["Leaf"]


class Wishes(msgspec.Struct, omit_defaults=True):
    """What is left out where nothing is wished."""

    owner: str
    height_m: int | None = None
    names: Mapping[str, str] = {}


def test_a_field_that_may_be_left_out_of_an_answer_is_not_required() -> None:
    schema = model_of(Wishes, Wishes("ada")).model_json_schema()

    assert schema["required"] == ["owner"]
    assert list(schema["properties"]) == list(Wishes.__struct_fields__)
    assert schema["properties"]["height_m"]["default"] is None
    assert schema["examples"] == [{"owner": "ada"}]


def test_the_example_is_what_is_sent() -> None:
    model = model_of(Tree, EXAMPLE)
    [example] = model.model_json_schema()["examples"]

    assert example == msgspec.json.decode(msgspec.json.encode(EXAMPLE))
    assert model.model_validate(example).model_dump(mode="json") == example


def test_fields_may_go_by_other_names() -> None:
    fields = fields_of(Tree)

    model = make_model("Arbor", "A tree.", {"nata": "2026-01-01"}, {"nata": fields["planted"]})

    assert model.model_json_schema()["properties"]["nata"]["format"] == "date"
