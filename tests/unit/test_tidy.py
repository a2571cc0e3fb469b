"""The source is as CONTRIBUTING promises: described, of one word per idea, in small pieces."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headgate"
MODULES = sorted(SOURCE.rglob("*.py"))
LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 400, 70, 100
#: Larger, because what they hold is read together.
LARGE_FILES = {
    "model/change.py",  # every constructor of a job's changes
    "ports/connector.py",  # what a developer of a connector sees
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
    return path.relative_to(SOURCE).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_every_module_says_what_it_owns() -> None:
    assert [name_of(path) for path in MODULES if not ast.get_docstring(parsed(path))] == []


def test_a_public_class_name_stands_for_one_idea() -> None:
    # The sandboxes are worlds of their own, each with its provider's words.
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if not name_of(path).startswith("sandbox/"):
                    places[node.name].append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_files_are_small_but_for_those_that_are_named() -> None:
    large = {
        name_of(path)
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX
    }
    assert large == LARGE_FILES


def test_functions_are_small_but_for_those_that_are_named() -> None:
    large = {
        f"{name_of(path)}:{each.name}"
        for path in MODULES
        for each in functions(parsed(path))
        if (each.end_lineno or each.lineno) - each.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert large == LARGE_FUNCTIONS


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "examples", "tools", "docs"])
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
