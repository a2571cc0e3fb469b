"""The page of promises: each with the tests that would refute it."""

from pathlib import Path

import pytest

from tools import promises

PAGE = """# P

<!-- faults -->
stale
<!-- end of faults -->

<!-- checks --><!-- end of checks -->
"""
TWO = {
    "faults": {"1": {"when": "a crash", "holds": "nothing is lost"}},
    "checks": {"7": {"when": "a guess", "holds": "refused", "untested": "not built yet"}},
}
MARKED = """
import pytest

@pytest.mark.parametrize("x", [1])
@pytest.mark.fault(1, 2)
async def test_a_crash_loses_nothing(x): ...

@pytest.mark.security(7)
def test_a_guess_is_refused(): ...

@pytest.mark.slow
def test_other(): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "flow").mkdir(parents=True)
    (tmp_path / "tests" / "flow" / "test_it.py").write_text(MARKED, encoding="utf-8")
    (tmp_path / "tests" / "test_none.py").write_text("def test_x(): ...", encoding="utf-8")
    return tmp_path


def test_marked_tests_are_found_by_number(root: Path) -> None:
    crash = ("tests/flow/test_it.py", "test_a_crash_loses_nothing")

    assert promises.find_marks(root) == {
        ("fault", 1): [crash],
        ("fault", 2): [crash],
        ("security", 7): [("tests/flow/test_it.py", "test_a_guess_is_refused")],
    }


def test_what_has_no_test_or_no_promise_is_reported(root: Path) -> None:
    assert list(promises.find_problems(TWO, promises.find_marks(root))) == [
        "fault 2: there is no such promise in promises.toml",
        "security 7: says that it is untested, and is not",
    ]
    assert list(promises.find_problems(TWO, {})) == ["fault 1: has no test"]


def test_the_tables_are_written_between_their_marks(root: Path) -> None:
    tests = {("fault", 1): [("tests/test_it.py", "test_a_crash_loses_nothing")]}

    page = promises.fill(PAGE, TWO, tests)

    assert (
        "| 1 | a crash | nothing is lost | [a crash loses nothing](../../tests/test_it.py) |"
        in page
    )
    assert "| 7 | a guess | refused | *none: not built yet* |" in page
    assert "stale" not in page
    assert promises.fill(page, TWO, tests) == page
