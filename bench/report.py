"""How a benchmark tells its figures: a table for people, one JSON line for machines.

A figure of safety, such as requests above a limit, has to be 0: the run fails if it is not.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

console = Console(stderr=True)


class Report:
    """Collects figures under names that stay the same from run to run."""

    def __init__(self, bench: str) -> None:
        """Report on the benchmark called `bench`."""
        self._bench = bench
        self._rows: list[tuple[str, str, str]] = []
        self._figures: dict[str, float] = {}
        self._broken: list[str] = []

    def add(self, name: str, value: float, unit: str, note: str = "") -> None:
        """One figure."""
        self._figures[name] = round(value, 4 if abs(value) < 10 else 1)
        self._rows.append((name, figure(value), unit + note))
        console.print(f"  {name} {self._rows[-1][1]} {unit}{note}", style="dim")

    def add_safety(self, name: str, count: int, unit: str, note: str = "") -> None:
        """A count of what must never happen."""
        self.add(name, count, unit, note)
        if count:
            self._broken.append(f"{name} is {count} {unit}{note}, and has to be 0")

    def print(self) -> None:
        """The table, then the line; exits with 1 if a figure of safety is not 0."""
        table = Table(title=self._bench)
        table.add_column("figure")
        table.add_column("value", justify="right")
        table.add_column("unit")
        for row in self._rows:
            table.add_row(*row)
        console.print(table)
        print(json.dumps({"bench": self._bench, "figures": self._figures}), flush=True)
        if self._broken:
            sys.exit("; ".join(self._broken))


def figure(value: float) -> str:
    """A value as people read it."""
    return f"{value:,.3g}" if abs(value) < 10 else f"{value:,.0f}"


def is_quick(description: str) -> bool:
    """Whether the command line asks for the quick run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="under 40 seconds")
    return bool(parser.parse_args().quick)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
