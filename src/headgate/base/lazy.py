"""Loading when it is needed: objects by their address, names of a package, and extras."""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.base.errors import InvalidInput
from headgate.base.redact import redact


def load(address: str, *, field: str = "address") -> Any:
    """Import what is at `address`; InvalidInput, naming `field`, where that fails."""
    module, attribute = _split(address, field)
    try:
        imported = import_module(module)
    # Whatever the module raises while it is imported, whoever loads it can only report it.
    except Exception as error:
        problem = redact(f"{type(error).__name__}: {error}")
        raise InvalidInput(field, f"{module} cannot be imported: {problem}") from error
    try:
        return getattr(imported, attribute)
    except AttributeError:
        raise InvalidInput(field, f"{module} has no {attribute!r}") from None


def check_address(address: str, *, field: str) -> None:
    """Refuse an address whose module is not installed, without importing it."""
    module, _ = _split(address, field)
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise InvalidInput(field, f"there is no module {module}")


@contextmanager
def needs_extra(field: str, extra: str) -> Iterator[None]:
    """Turn a failed import in the block into a message that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise InvalidInput(field, f"{error.name} is missing: install headgate[{extra}]") from None


def lazy_names(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports what it offers below `if TYPE_CHECKING` only.

    A name is loaded by that import when it is first used, so whoever uses one part of the package
    waits for no other.
    """

    def get(name: str) -> Any:
        module = sys.modules[package]
        for imported in _imports_for_types(module):
            for each in imported.names:
                if name == (each.asname or each.name):
                    found = getattr(import_module(str(imported.module)), each.name)
                    setattr(module, name, found)
                    return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def _imports_for_types(module: ModuleType) -> Iterator[ast.ImportFrom]:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (each for each in node.body if isinstance(each, ast.ImportFrom))


def _split(address: str, field: str) -> tuple[str, str]:
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise InvalidInput(field, f"{address!r} is not module:attribute, such as books.api:routes")
    return module, attribute
