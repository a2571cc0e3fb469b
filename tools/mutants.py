"""`python -m tools.mutants`: breaks the product in one place at a time, and runs what notices it.

`tests/mutants` lists the changes, each with the tests that fail by it. A change names its function
and what it replaces there, found in the syntax tree: one that applies no more, or in two places,
fails the run, as does one that no test notices. The product itself is not touched: each process
changes a copy of its own.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeGuard

import msgspec

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "tests" / "mutants"
#: What a copy needs no copy of: it is not changed, or made anew.
_SHARED = (".venv", ".venv-aws")
_LEFT_OUT = (*_SHARED, ".git", ".cache", ".hypothesis", ".mypy_cache", ".venv-peers", "dist")
#: What pytest answers if tests failed; if it could not run them, it answers something else.
_PASSED, _FAILED = 0, 1
_TEST_S_MAX = 60
_RUN_S_MAX = 600.0


class MutantError(Exception):
    """A change that does not apply, or tests that cannot judge it."""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"function": "in"}):
    """A change of the product, and the tests that must fail by it."""

    #: What is broken.
    what: str
    #: `module:Class.function`, and the expression or statement that is replaced there.
    function: str
    replace: str
    by: str
    #: Whole ids of tests, each of which fails.
    killed_by: tuple[str, ...]
    #: Whether they are left to `make test-all`.
    thorough: bool = False

    @property
    def path(self) -> Path:
        """The changed file, from the root of the project."""
        module = self.function.partition(":")[0].replace(".", "/")
        package = Path("src", module, "__init__.py")
        return package if (ROOT / package).exists() else Path("src", f"{module}.py")

    def apply(self, source: str) -> str:
        """The source text with this change."""
        name = self.function.partition(":")[2]
        body = _find_function(ast.parse(source), name.split("."))
        if body is None:
            raise MutantError(f"{self.path} has no {name}")
        wanted = _parse(self.replace)
        found = [node for node in ast.walk(body) if ast.dump(node) == ast.dump(wanted)]
        if len(found) != 1:
            raise MutantError(f"{self.function} has `{self.replace}` {len(found)} times, not once")
        [node] = found
        assert _has_place(node)
        new = f"({self.by})" if isinstance(node, ast.expr) else self.by
        changed = _replace_lines(source, node, new)
        ast.parse(changed)
        return changed


def load_mutants() -> Sequence[Mutant]:
    """All of the lists."""
    read = [
        tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(LISTS.glob("*.toml"))
    ]
    return msgspec.convert([each for one in read for each in one["mutant"]], list[Mutant])


def main() -> int:
    """Run the mutants that are asked for, or all; 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants that have one of these words")
    parser.add_argument(
        "--find",
        nargs="+",
        metavar="PATH",
        default=[],
        help="run these tests instead, and print which of them fail by the mutant",
    )
    options = parser.parse_args()
    words = options.words
    mutants = [
        each for each in load_mutants() if not words or any(word in repr(each) for word in words)
    ]
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-") as folder:
        copies = Copies(Path(folder), os.cpu_count() or 1)
        if options.find:
            for each in mutants:
                print(f"==> {each.what}\n{copies.test(each, options.find)[1]}", flush=True)
            return 0
        unsound = copies.find_unsound(mutants)
        if unsound is not None:
            print(f"without any change not all of the tests pass:\n{unsound}")
            return 1
        survivors = 0
        with ThreadPoolExecutor(copies.count) as pool:
            for each, problem in zip(mutants, pool.map(copies.judge, mutants), strict=True):
                print(f"{'survives' if problem else 'killed  '}  {each.what}", flush=True)
                if problem:
                    survivors += 1
                    print(f"{each.function}: {problem}", flush=True)
    print(f"==> {len(mutants)} mutants, {survivors} of them survive")
    return 1 if survivors or not mutants else 0


class Copies:
    """Copies of the project, each for one mutant at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        """Make so many copies in the folder."""
        self.count = count
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = folder / str(number)
            shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
            for name in _SHARED:
                (copy / name).symlink_to(ROOT / name)
            self._free.put(copy)

    def judge(self, mutant: Mutant) -> str | None:
        """Why the mutant counts as surviving; None if all of its tests fail by it."""
        if not mutant.killed_by:
            return "names no tests"
        try:
            status, output = self.test(mutant, mutant.killed_by)
        except MutantError as error:
            return str(error)
        failed = output.count("\nFAILED ")
        if status == _FAILED and failed == len(mutant.killed_by):
            return None
        return f"{failed} of {len(mutant.killed_by)} tests fail:\n{output}"

    def find_unsound(self, mutants: Iterable[Mutant]) -> str | None:
        """What the tests print that fail without any change; None if they pass, as they must."""
        for thorough in (False, True):
            tests = {
                name for each in mutants if each.thorough is thorough for name in each.killed_by
            }
            if not tests:
                continue
            with self._one() as copy:
                status, output = _run_tests(copy, sorted(tests), thorough)
            if status != _PASSED:
                return output
        return None

    def test(self, mutant: Mutant, tests: Sequence[str]) -> tuple[int, str]:
        """The status and the output of pytest, of these tests by the mutant."""
        with self._one() as copy:
            path = copy / mutant.path
            source = path.read_text(encoding="utf-8")
            try:
                _write(path, mutant.apply(source))
                return _run_tests(copy, tests, mutant.thorough)
            finally:
                _write(path, source)

    @contextmanager
    def _one(self) -> Iterator[Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def _run_tests(copy: Path, tests: Sequence[str], thorough: bool) -> tuple[int, str]:
    marked = "thorough" if thorough else "not thorough"
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rf"]
    command += ["-p", "no:cacheprovider", f"--timeout={_TEST_S_MAX}", "-m", marked]
    done = subprocess.run(
        [*command, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=_RUN_S_MAX,
        check=False,
    )
    return done.returncode, done.stdout


def _write(path: Path, source: str) -> None:
    """Write a module, and delete what was compiled of it: within a second it might be taken."""
    path.write_text(source, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def _find_function(tree: ast.AST, names: Sequence[str]) -> ast.AST | None:
    for name in names:
        named = (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name == name
        )
        found = next(named, None)
        if found is None:
            return None
        tree = found
    return tree


def _parse(text: str) -> ast.AST:
    """The expression or the statement."""
    [statement] = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def _has_place(node: ast.AST) -> TypeGuard[ast.expr | ast.stmt]:
    return isinstance(node, ast.expr | ast.stmt)


def _replace_lines(source: str, node: ast.expr | ast.stmt, new: str) -> str:
    """The source with other text in the place of a node; columns are counted in bytes."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + new.encode() + after).decode()


if __name__ == "__main__":
    sys.exit(main())
