"""The table of peers: the middle of the rounds, what is missing, and its place in the README."""

from pathlib import Path

import pytest

from bench.peer_table import BEGIN, END, Row, Table, write_block
from bench.peers import middle


def test_the_middle_of_each_figure_counts_and_no_failure_is_hidden() -> None:
    assert middle([[3.0, 10.0], [1.0, 30.0], [2.0, 20.0]]) == [2.0, 20.0]
    assert middle([[3.0], "failed", [2.0]]) == "failed"


def test_programs_without_a_figure_have_a_dash() -> None:
    table = Table(["ours", "theirs"])
    table.add(Row("pickup", "pick-up, p50 / p99 ms", {"ours": [1.25, 4321.0]}))

    assert "| pick-up, p50 / p99 ms | 1.25 / 4,321 | - |" in table.markdown().splitlines()


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")

    write_block(file, "new")

    assert file.read_text(encoding="utf-8") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    # And a file without both marks is left alone.
    half = f"before\n{BEGIN}\nold\n"
    file.write_text(half, encoding="utf-8")
    with pytest.raises(ValueError, match="bench:peers"):
        write_block(file, "new")
    assert file.read_text(encoding="utf-8") == half
