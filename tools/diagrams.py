"""Writes the state diagrams in the docs from `model/states.py`; `--check` only compares."""

import argparse
import sys
from pathlib import Path
from typing import Any

from headgate.model.states import MACHINES, Machine

PAGE = Path("docs/explanation/states.md")


def page() -> str:
    """The whole page, as it should be."""
    parts = [
        "# States\n",
        "Generated from `src/headgate/model/states.py` by `python -m tools.diagrams`; "
        "edit the table there, not this page.\n",
    ]
    for machine in MACHINES:
        parts += [f"## {machine.name.capitalize()}\n", diagram(machine), table(machine)]
    return "\n".join(parts)


def diagram(machine: Machine[Any, Any]) -> str:
    """A machine as a mermaid state diagram."""
    begins = f"    [*] --> {machine.initial.value}: {machine.begins}"
    lines = ["```mermaid", "stateDiagram-v2", begins]
    for edge in machine.edges:
        for source in edge.sources:
            lines.append(f"    {source.value} --> {edge.target.value}: {edge.name}")
    lines += [f"    {state.value} --> [*]" for state in machine.terminal]
    return "\n".join([*lines, "```", ""])


def table(machine: Machine[Any, Any]) -> str:
    """A machine as a table of its edges."""
    rows = ["| change | from | to | when |", "|---|---|---|---|"]
    for edge in machine.edges:
        sources = ", ".join(f"`{source.value}`" for source in edge.sources)
        rows.append(f"| {edge.name} | {sources} | `{edge.target.value}` | {edge.when} |")
    active = ", ".join(f"`{state.value}`" for state in machine.active)
    ended = ", ".join(f"`{state.value}`" for state in machine.terminal) or "none"
    return "\n".join([*rows, "", f"Active: {active}. Ended: {ended}.", ""])


def main() -> int:
    """Write the page, or say whether it is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    there = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if there == page():
        return 0
    if check:
        print(f"{PAGE} is not what model/states.py says: run python -m tools.diagrams")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
