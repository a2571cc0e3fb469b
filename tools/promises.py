"""Writes the tables of `docs/explanation/promises.md` from the marks on tests; `--check` compares.

What is promised is in `promises.toml`. A test that would refute a promise is marked with its
number: `@pytest.mark.fault(4)` or `@pytest.mark.security(12)`. A promise without a test says why.
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "promises.md"
PROMISES = Path(__file__).with_suffix(".toml")
KINDS = {"fault": "faults", "security": "checks"}

#: The tests that refute a promise: the file and the name of each, by kind and number.
Marks = Mapping[tuple[str, int], list[tuple[str, str]]]


def main() -> int:
    """Write the tables, or say whether they are as they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    promises = tomllib.loads(PROMISES.read_text(encoding="utf-8"))
    marks = find_marks(ROOT)
    problems = list(find_problems(promises, marks))
    there = PAGE.read_text(encoding="utf-8")
    page = fill(there, promises, marks)
    if check and page != there:
        problems.append(f"{PAGE.relative_to(ROOT)} is out of date: run python -m tools.promises")
    elif page != there:
        PAGE.write_text(page, encoding="utf-8")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


def find_marks(root: Path) -> Marks:
    """The marked tests under `root`."""
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for file in sorted((root / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(f"mark.{kind}(" in text for kind in KINDS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = (file.relative_to(root).as_posix(), node.name)
                for each in node.decorator_list:
                    for mark in _numbers(each):
                        found.setdefault(mark, []).append(place)
    return found


def _numbers(decorator: ast.expr) -> Iterator[tuple[str, int]]:
    """The kind and the numbers of a mark; nothing if it is another decorator."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return
    if decorator.func.attr in KINDS and ast.unparse(decorator.func.value) == "pytest.mark":
        for each in decorator.args:
            assert isinstance(each, ast.Constant) and isinstance(each.value, int)
            yield decorator.func.attr, each.value


def find_problems(promises: Mapping[str, Any], marks: Marks) -> Iterator[str]:
    """A line for each promise that no test could refute, and each mark of no promise."""
    known = {(kind, int(number)) for kind, name in KINDS.items() for number in promises[name]}
    for kind, number in sorted(set(marks) - known):
        yield f"{kind} {number}: there is no such promise in {PROMISES.name}"
    for kind, number in sorted(known):
        untested = "untested" in promises[KINDS[kind]][str(number)]
        if untested == ((kind, number) in marks):
            says = "says that it is untested, and is not" if untested else "has no test"
            yield f"{kind} {number}: {says}"


def fill(page: str, promises: Mapping[str, Any], marks: Marks) -> str:
    """The page with both of its tables as they should be."""
    for kind, name in KINDS.items():
        rows = [
            _row(int(number), each, marks.get((kind, int(number)), []))
            for number, each in promises[name].items()
        ]
        table = "\n".join(["| # | what happens | what holds | tests |", "|---|---|---|---|", *rows])
        before, begin, rest = page.partition(f"<!-- {name} -->")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def _row(number: int, each: Mapping[str, str], tests: list[tuple[str, str]]) -> str:
    links = [f"[{_shown(name)}](../../{file})" for file, name in tests]
    shown = "<br>".join(links) or f"*none: {each.get('untested', 'missing')}*"
    return f"| {number} | {each['when']} | {each['holds']} | {shown} |"


def _shown(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    sys.exit(main())
