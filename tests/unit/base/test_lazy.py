"""Things that are known by their address: found, or refused with the field that names them."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.lazy import check_address, lazy_names, load


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


def test_a_module_that_cannot_be_imported_is_told_with_the_cause() -> None:
    with pytest.raises(InvalidInput, match="nowhere_at_all cannot be imported: ModuleNotFound"):
        load("nowhere_at_all:it")


def test_an_address_is_checked_without_importing_it() -> None:
    check_address("antigravity:fly", field="x")
    assert "antigravity" not in sys.modules
    for address in ("nowhere_at_all:it", "json.nowhere:it"):
        with pytest.raises(InvalidInput, match="x: there is no module"):
            check_address(address, field="x")
    with pytest.raises(InvalidInput, match="is not module:attribute"):
        check_address("json", field="x")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that offers two names of others, once somebody asks for them."""
    source = tmp_path / "shelf.py"
    source.write_text(
        "import colorsys\nif TYPE_CHECKING:\n    from antigravity import fly\n"
        "    from json import loads as read\n",
        encoding="utf-8",
    )
    module = ModuleType("shelf")
    module.__file__ = str(source)
    monkeypatch.setitem(sys.modules, "shelf", module)
    vars(module)["__getattr__"] = lazy_names("shelf")
    return module


def test_a_name_that_types_import_is_loaded_when_it_is_used_and_no_other(
    package: ModuleType,
) -> None:
    assert package.read is json.loads
    # Then it is there, as any other.
    assert vars(package)["read"] is json.loads
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["loads", "colorsys"])
def test_a_name_that_is_not_imported_for_types_is_missing(package: ModuleType, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'shelf' has no attribute '{name}'"):
        getattr(package, name)
