"""The public face: complete, and enough for programs and pages of ours."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import msgspec
import pytest

import headgate
import headgate.types
from headgate import Command
from headgate.cli.main import COMMANDS, commands_of_others
from headgate.discovery import installed_systems
from headgate.settings import Settings
from headgate.toolkit.commands.lazy import LazyCommand
from tools.python_reference import MODULES

ROOT = Path(__file__).parents[2]
#: Headgate's own, and those of the installed systems and of others.
ALL = [
    *COMMANDS,
    *(one for each in installed_systems() if each.system for one in each.system.commands),
    *commands_of_others(),
]
NAMES = {module: import_module(module).__all__ for module in MODULES}
#: The names at the top are few enough to be known by heart.
NAMES_MAX = 95
_IMPORT = re.compile(r"^ *from (headgate[\w.]*) import (\([^)]*\)|.+)", re.MULTILINE)
_DOTTED = re.compile(r"(?<![\w./])headgate\.([A-Z]\w+)")
PROGRAMS = [
    *(ROOT / "src/headgate/systems").rglob("*.py"),
    *(ROOT / "sandbox/src/headgate_sandbox/demo").rglob("*.py"),
    *(ROOT / "examples").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
]


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_lists_all_that_it_offers(name: str) -> None:
    module = import_module(name)
    assert sorted(NAMES[name]) == sorted(set(_offered(module)))
    # A part of the package by the same name would be found in its place.
    assert [each for each in NAMES[name] if isinstance(getattr(module, each), ModuleType)] == []


def _offered(module: ModuleType) -> Iterator[str]:
    """What a module imports for others, at once or when it is used."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module not in {"typing", "headgate.base.lazy"}:
            yield from (each.asname or each.name for each in node.names)
    if module is headgate:
        yield "__version__"


def test_the_names_at_the_top_are_few_and_no_other_module_has_them_too() -> None:
    assert len(NAMES["headgate"]) <= NAMES_MAX
    everywhere = [each for module in ("headgate", "headgate.types") for each in NAMES[module]]
    assert len(everywhere) == len(set(everywhere))


def test_whatever_a_facade_returns_has_a_public_name() -> None:
    public = {each for names in NAMES.values() for each in names}
    nameless = {
        f"{each.__name__} of {owner}"
        for owner in headgate.types.__all__
        for each in _returned(getattr(headgate.types, owner))
        if each.__module__.startswith("headgate.") and each.__name__ not in public
    }
    assert nameless == set()


def _returned(given: object) -> Iterator[type]:
    """The classes in the fields of a struct, or in what the methods of a facade return."""
    if not isclass(given):
        return
    hints = list(get_type_hints(given).values()) if issubclass(given, msgspec.Struct) else []
    for name, each in vars(given).items():
        if isfunction(each) and not name.startswith("_"):
            hints.append(get_type_hints(each).get("return"))
    while hints:
        hint = hints.pop()
        hints += hint if isinstance(hint, list) else get_args(hint)
        if isclass(hint) and not get_args(hint):
            yield hint


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_and_pages_use_public_names_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = [(match[1], each) for match in _IMPORT.finditer(text) for each in _names(match[2])]
    used += [("headgate", each) for each in _DOTTED.findall(text)]
    # Systems are programs of their own, and so are the sandboxes that demonstrations start.
    ours = ("headgate.systems", "headgate_sandbox")
    hidden = [
        f"{module}: {name}"
        for module, name in used
        if not module.startswith(ours) and name not in NAMES.get(module, ())
    ]
    assert hidden == []


def _names(listed: str) -> list[str]:
    return [each.split()[0] for each in listed.strip("()").split(",") if each.strip()]


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert f"`HEADGATE_{name.upper()}`" in row
        default = row.split("|")[3].strip().strip("`")
        told = (
            "none"
            if field.default is None or field.default == {}
            else f"{field.default:.15g}"
            if isinstance(field.default, int | float)
            else field.default
        )
        assert default == told


def test_every_command_has_a_sentence_of_help() -> None:
    ahead = [LazyCommand(each).load() for each in ALL]
    while ahead:
        each = ahead.pop()
        assert each.help, each.name
        ahead += getattr(each, "commands", {}).values()


@pytest.mark.parametrize("listed", ALL, ids=lambda each: str(each.name))
def test_a_command_is_listed_as_it_tells_itself(listed: Command) -> None:
    itself = LazyCommand(listed).load()
    assert itself.help is not None
    first_paragraph = itself.help.partition("\n\n")[0].replace("\n", " ")
    assert (listed.name, listed.help) == (itself.name, first_paragraph)
