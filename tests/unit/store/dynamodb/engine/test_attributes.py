"""Items: attribute values there and back, sizes that are never too small, and addresses."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import InvalidInput
from headgate.store.dynamodb.engine.address import DynamoAddress, parse_address
from headgate.store.dynamodb.engine.attributes import (
    ITEM_BYTES_MAX,
    ItemTooLarge,
    check_item,
    check_key,
    from_attributes,
    item_size,
    size_of,
    to_attribute,
    to_attributes,
)
from headgate.store.dynamodb.engine.writes import Put, Update, is_one_of, set_and_remove

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1, max_size=5), VALUES, max_size=4))
def test_an_item_comes_back_as_it_was_written(item: dict[str, Any]) -> None:
    assert from_attributes(to_attributes(item)) == item


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), Decimal(1), {1}])
def test_what_has_no_attribute_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        to_attribute(value)


@pytest.mark.parametrize(
    ("value", "least"),
    [
        ("é", 2),
        (b"abc", 3),
        (None, 1),
        (True, 1),
        # DynamoDB: about (digits / 2) + 1 bytes.
        (12345678, 5),
        (-0.12345678, 5),
        ([], 3),
        (["ab", "c"], 3 + 3 + 2),
        ({"a": "b"}, 3 + 2 + 1),
    ],
    ids=str,
)
def test_a_size_is_at_least_what_dynamodb_counts(value: object, least: int) -> None:
    assert size_of(value) >= least


def test_an_item_at_the_limit_is_stored_and_a_byte_more_is_not() -> None:
    # The names of attributes count.
    assert item_size({"pk": "a", "é": "b"}) == 2 + 1 + 2 + 1
    base = item_size({"pk": "a", "sk": "b", "text": ""})
    check_item({"pk": "a", "sk": "b", "text": "x" * (ITEM_BYTES_MAX - base)})

    with pytest.raises(ItemTooLarge, match="409,600"):
        check_item({"pk": "a", "sk": "b", "text": "x" * (ITEM_BYTES_MAX - base + 1)})


@pytest.mark.parametrize("key", [("", "b"), ("a", ""), ("é" * 1025, "b"), ("a", "é" * 513)])
def test_a_key_that_dynamodb_refuses_is_refused_here(key: tuple[str, str]) -> None:
    with pytest.raises(ItemTooLarge):
        check_key(key)


def test_only_the_names_and_values_of_an_expression_are_sent() -> None:
    update = Update(
        at=("a", "b"),
        change=set_and_remove({"state": "new", "gone": None}),
        condition="#token = :token",
        values={"state": "new", "gone": None, "token": 1, "unused": 2},
    )

    request = update.request()

    assert request["UpdateExpression"] == "SET #state = :state REMOVE #gone"
    assert request["ExpressionAttributeNames"] == {
        "#state": "state",
        "#gone": "gone",
        "#token": "token",
    }
    assert request["ExpressionAttributeValues"] == {":state": {"S": "new"}, ":token": {"N": "1"}}


def test_a_condition_names_no_more_values_at_once_than_dynamodb_takes() -> None:
    condition, values = is_one_of("sync", [f"sync_{number}" for number in range(201)])

    assert [part.count(":") for part in condition.split(" OR ")] == [100, 100, 1]
    assert values["sync_200"] == "sync_200"


def test_an_expression_that_dynamodb_refuses_is_not_sent() -> None:
    condition, values = is_one_of("sync", ["any"] * 1000)
    update = Update(at=("a", "b"), change="SET #a = :sync_0", condition=condition, values=values)
    with pytest.raises(AssertionError, match="too long"):
        update.request()


def test_a_write_without_expressions_sends_no_names() -> None:
    assert set(Put(item={"pk": "a", "sk": "b"}).request()) == {"Item"}


def test_an_address_names_table_region_and_endpoint() -> None:
    local = "dynamodb://My.Table-1?region=eu-central-1&endpoint=http://127.0.0.1:4566"

    assert parse_address("dynamodb://headgate") == DynamoAddress("headgate")
    assert parse_address(local) == DynamoAddress(
        "My.Table-1", "eu-central-1", "http://127.0.0.1:4566"
    )


@pytest.mark.parametrize(
    "url",
    ["dynamodb://", "dynamodb://ab", "dynamodb://table/more", "dynamodb://t able", "sqlite:///x"],
)
def test_a_wrong_address_or_option_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^database: must be"):
        parse_address(url)
    with pytest.raises(InvalidInput, match="'zone'"):
        parse_address("dynamodb://table?zone=a")
