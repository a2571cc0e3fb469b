"""A change of the product in one place, found in the syntax tree of its function."""

from pathlib import Path

import pytest

from tools.mutants import Mutant, MutantError, load_mutants

ROOT = Path(__file__).parents[3]
SOURCE = '''"""Two functions with the same line."""


class Table:
    def take(self, row, token):
        """Größer als nötig."""
        ü = "é"; return row.token == token and row.free


def take(row, token):
    return row.token == token
'''


def mutant(
    function: str = "take", replace: str = "row.token == token", by: str = "True or row"
) -> Mutant:
    return Mutant(
        what="", function=f"headgate.base:{function}", replace=replace, by=by, killed_by=()
    )


def test_the_change_is_made_in_the_named_function_alone() -> None:
    changed = mutant("Table.take").apply(SOURCE)

    # Columns are counted right behind letters of two bytes, and what follows stays what it was.
    expected = SOURCE.replace("row.token == token and", "(True or row) and")
    assert changed == expected


def test_a_statement_is_replaced_whole() -> None:
    changed = mutant(replace="return row.token == token", by="return None").apply(SOURCE)

    assert changed == SOURCE[: SOURCE.rindex("return")] + "return None\n"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (mutant("take", replace="row.token is token"), "has `row.token is token` 0 times"),
        (mutant("Table.take", replace="row"), "has `row` 2 times"),
        (mutant("Table.give"), "has no Table.give"),
    ],
)
def test_a_change_that_applies_nowhere_or_twice_is_refused(wrong: Mutant, told: str) -> None:
    with pytest.raises(MutantError, match=told):
        wrong.apply(SOURCE)


@pytest.mark.parametrize("listed", load_mutants(), ids=lambda each: each.what)
def test_each_listed_change_applies_and_names_its_tests(listed: Mutant) -> None:
    source = (ROOT / listed.path).read_text(encoding="utf-8")

    assert listed.apply(source) != source
    assert listed.killed_by
    for name in listed.killed_by:
        path, _, test = name.partition("::")
        tests = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {test.partition('[')[0]}(" in tests, name
