"""The source is as CONTRIBUTING promises: described, of one word per idea, in small pieces."""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headgate"
#: The sandboxes are worlds of their own, each with its provider's words.
SANDBOXES = ROOT / "sandbox/src/headgate_sandbox"
MODULES = sorted([*SOURCE.rglob("*.py"), *SANDBOXES.rglob("*.py")])
LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 400, 70, 100
#: The modules that a folder may have, by its room: as many as one takes in at a glance, and twice
#: that where each is a page of its own.
MODULES_MAX = {
    **dict.fromkeys(("cli", "connectors", "flow", "loops", "ports", "store", "toolkit", "web"), 12),
    **dict.fromkeys(("base", "model", "policy"), 24),
}
#: Larger, because what they hold is read together.
LARGE_FILES = {
    "model/change.py",  # every constructor of a job's changes
    "store/sql/migrations/versions/0001_first.py",  # the same, one after another
    "store/sql/tables.py",  # every table of the engine
}
LARGE_FUNCTIONS = {
    "store/sql/migrations/versions/0001_first.py:upgrade",
    "store/sql/migrations/versions/0002_outbox.py:upgrade",
}
#: Where the time, randomness and real processes are made that everything else is handed.
MAY_CALL_WHAT_IS_BANNED = {
    "src/headgate/base/clock.py",
    "src/headgate/base/ids.py",
    "src/headgate/app.py",
}
_LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE if path.is_relative_to(SOURCE) else SANDBOXES.parent).as_posix()


class Definition(NamedTuple):
    """A class or a function, and how many lines it has."""

    name: str
    is_class: bool
    lines: int


class Outline(NamedTuple):
    """What is asked of a module here. Its tree is not kept: all of them together are large."""

    described: bool
    definitions: Sequence[Definition]


def outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[Definition] = []
    rest: list[ast.AST] = [tree]
    while rest:
        for node in ast.iter_child_nodes(rest.pop()):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append(Definition(node.name, isinstance(node, ast.ClassDef), lines))
            # Nothing is defined within an expression, and most of a tree are expressions.
            if not isinstance(node, ast.expr):
                rest.append(node)
    return Outline(bool(ast.get_docstring(tree)), found)


@pytest.fixture(scope="module")
def outlines() -> Mapping[str, Outline]:
    """Of every module, by its name."""
    return {name_of(path): outline(path) for path in MODULES}


def test_every_module_says_what_it_owns(outlines: Mapping[str, Outline]) -> None:
    assert [name for name, each in outlines.items() if not each.described] == []


def test_a_public_class_name_stands_for_one_idea(outlines: Mapping[str, Outline]) -> None:
    places = defaultdict(list)
    for module, told in outlines.items():
        for each in () if module.startswith(SANDBOXES.name) else told.definitions:
            if each.is_class and not each.name.startswith("_"):
                places[each.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_files_are_small_but_for_those_that_are_named() -> None:
    large = {
        name_of(path)
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX
    }
    assert large == LARGE_FILES


def test_folders_are_small() -> None:
    sizes = Counter(
        path.parent.relative_to(SOURCE)
        for path in MODULES
        if path.is_relative_to(SOURCE)
        and path.name != "__init__.py"
        and "migrations" not in path.parts
    )
    assert {
        folder.as_posix(): size
        for folder, size in sizes.items()
        if size > MODULES_MAX.get(folder.as_posix().partition("/")[0], size)
    } == {}


def test_functions_are_small_but_for_those_that_are_named(
    outlines: Mapping[str, Outline],
) -> None:
    large = {
        f"{module}:{each.name}"
        for module, told in outlines.items()
        for each in told.definitions
        if not each.is_class and each.lines > FUNCTION_LINES_MAX
    }
    assert large == LARGE_FUNCTIONS


@pytest.mark.parametrize(
    "folder", ["src", "sandbox", "tests", "bench", "examples", "tools", "docs"]
)
def test_nothing_is_left_for_later(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md", ".html", ".js", ".css", ".lua"} and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _LEFTOVER.search(line) and "vendor" not in path.parts
    ]
    assert found == []


def test_direct_calls_for_time_and_chance_are_banned_with_their_replacement() -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    lint = ruff["lint"]
    banned = lint["flake8-tidy-imports"]["banned-api"]

    assert {"asyncio.sleep", "datetime.datetime.now", "time.time", "uuid.uuid4"} <= set(banned)
    assert all("base/" in each["msg"] for each in banned.values())
    assert "TID251" in lint["select"]
    assert ruff["line-length"] == COLUMNS_MAX
    exempt = {path for path, rules in lint["per-file-ignores"].items() if "TID251" in rules}
    assert {path for path in exempt if path.startswith("src/")} == MAY_CALL_WHAT_IS_BANNED


def test_no_rule_is_ignored_without_saying_which() -> None:
    bare = re.compile(r"#\s*(noqa(?!:)|type:\s*ignore(?!\[))")
    assert [
        name_of(path) for path in MODULES if bare.search(path.read_text(encoding="utf-8"))
    ] == []
