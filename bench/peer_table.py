"""The table of Headgate and its peers: as Markdown, as JSON, and in the README."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os import cpu_count, getloadavg
from pathlib import Path
from typing import NamedTuple

from bench.queue_program import ROOT
from bench.report import figure

#: The figures of one program for one measure; none: it has none; a text: why there are none.
Cell = Sequence[float] | str

BEGIN, END = "<!-- bench:peers -->", "<!-- /bench:peers -->"


class Row(NamedTuple):
    """One measure of all programs."""

    name: str
    title: str
    cells: Mapping[str, Cell]


class Table:
    """Rows of measures and columns of programs."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Begin with no row, and note how busy the machine is before anything is measured."""
        self._columns = columns
        self._load = getloadavg()[0]
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        """One more measure."""
        self._rows.append(row)

    def figures(self) -> dict[str, dict[str, Cell]]:
        """All figures, by measure and program."""
        return {row.name: dict(row.cells) for row in self._rows}

    def markdown(self) -> str:
        """The table for people and for the README, with the commit and the machine."""
        lines = [["", *self._columns], ["---", *["---:"] * len(self._columns)], *self._texts()]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"{table}\n\n{_where(self._load)}"

    def _texts(self) -> list[list[str]]:
        return [
            [row.title, *(_text(row.cells.get(column, ())) for column in self._columns)]
            for row in self._rows
        ]


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return " / ".join(figure(value) for value in cell) or "-"


def _where(load_before: float) -> str:
    """Where and when it was measured; where others work too, even ratios are rough."""
    day = datetime.now(UTC).date()
    system = f"{cpu_count()} cores ({_processor()}), Python {platform.python_version()}"
    return (
        f"Measured on {day} at commit {_commit()}: {system}, Postgres 18 with fsync on. The load "
        f"of the machine was {load_before:.1f} before the run and {getloadavg()[0]:.1f} at its end."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _commit() -> str:
    """The commit, marked if what was measured is not what is committed."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench")
    return _git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write_block(file: Path, table: str) -> None:
    """Replace what is between the marks in a file."""
    text = file.read_text(encoding="utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{file.name} has no {BEGIN} … {END}")
    file.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
