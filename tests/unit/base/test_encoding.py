"""Canonical JSON: equal content gives equal bytes and equal hashes."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.encoding import content_hash, from_json, json_problem, to_json

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(texts, inner, max_size=5)),
    max_leaves=20,
)


def shuffled(value: Any) -> Any:
    """The same content, its keys put in the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [shuffled(each) for each in value]
    return value


def holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(holds_nul(key) or holds_nul(value[key]) for key in value)
    if isinstance(value, list):
        return any(holds_nul(each) for each in value)
    return isinstance(value, str) and "\x00" in value


@given(values)
def test_what_goes_in_comes_out_and_is_json_for_everybody_else(value: object) -> None:
    assert from_json(to_json(value)) == value
    assert from_json(to_json(value).encode()) == value
    assert json.loads(to_json(value)) == value


@given(values)
def test_the_order_of_keys_changes_neither_text_nor_hash(value: object) -> None:
    assert to_json(shuffled(value)) == to_json(value)
    assert content_hash(shuffled(value)) == content_hash(value)
    # 128 bits in hexadecimal.
    assert re.fullmatch("[0-9a-f]{32}", content_hash(value))


@given(values, values)
def test_different_text_has_a_different_hash(one: object, other: object) -> None:
    assert (content_hash(one) == content_hash(other)) == (to_json(one) == to_json(other))


def test_the_text_is_compact_and_its_keys_are_sorted_at_every_depth() -> None:
    value = {"b": [{"z": 1, "a": 2}], "a": "é"}

    assert to_json(value) == '{"a":"é","b":[{"a":2,"z":1}]}'


def test_a_hash_stays_the_same_from_release_to_release() -> None:
    # Stored rows are compared with it: another hash would rewrite every record once.
    assert content_hash({"a": 1, "b": [None, True, "x"]}) == "5f47e0093b8f88632ecdcdc4bfc0e951"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_is_not_a_number_becomes_null(value: float) -> None:
    assert to_json({"a": value}) == '{"a":null}'


@pytest.mark.parametrize("value", [{1: "one"}, {("a", "b"): 1}, 1j, print], ids=repr)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        to_json(value)


@given(values)
def test_a_value_can_be_stored_unless_it_holds_a_nul(value: object) -> None:
    problem = json_problem(value, bytes_max=10**9)

    assert (problem is not None) == holds_nul(value)


def test_what_cannot_be_stored_is_told_with_the_reason() -> None:
    assert json_problem({"a": 1}, bytes_max=7) is None
    assert json_problem({"a": 1}, bytes_max=6) == "is 7 bytes of JSON; at most 6 are allowed"
    assert json_problem(["\x00"], bytes_max=99) == "must not contain the character NUL"
    assert str(json_problem(object(), bytes_max=99)).startswith("cannot be written as JSON: ")
