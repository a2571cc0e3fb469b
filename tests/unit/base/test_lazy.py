"""Things that are known by their address: found, or refused with the field that names them."""

import json

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.lazy import load


def test_what_is_at_an_address_is_imported() -> None:
    assert load("json:loads") is json.loads
    assert load("json.decoder:JSONDecoder") is json.JSONDecoder


@pytest.mark.parametrize("address", ["", "json", "json:", ":loads", ":"])
def test_what_is_no_address_is_refused_with_what_one_looks_like(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"books\.routes: .*module:attribute") as caught:
        load(address, field="books.routes")
    assert caught.value.field == "books.routes"


def test_a_module_without_the_attribute_is_refused() -> None:
    with pytest.raises(InvalidInput, match="address: json has no 'nothing'"):
        load("json:nothing")


def test_a_module_that_is_missing_says_so_itself() -> None:
    # Whoever asked knows whether that is an extra to install.
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        load("nowhere_at_all:thing")
