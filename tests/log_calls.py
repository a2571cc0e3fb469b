"""Every call of a logger in the source, and the pages that say what is logged."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/headgate"
LEVELS = ("debug", "info", "warning", "error")
#: What the logger takes for itself; it is told as `exception`.
_TRACEBACK = "exc_info"
_ROW = re.compile(r"^\| `(\w+)` \| ([\w, ]+) \| [^|]+ \| ([^|]*) \|$", re.MULTILINE)


class LogCall(NamedTuple):
    """Where an event is logged, as what, and with which fields."""

    place: str
    level: str
    #: As it is written: `LogEvent.CHUNK`.
    event: str
    fields: frozenset[str]


class Logged(NamedTuple):
    """What is logged under one event, all calls together."""

    levels: frozenset[str]
    fields: frozenset[str]


def log_calls(folder: Path) -> Iterator[LogCall]:
    """Every call of a logger in the files under `folder`."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # To parse the others, which are most, takes half a second.
        for node in ast.walk(ast.parse(text)) if "_log." in text else ():
            if isinstance(node, ast.Call) and (level := _level(node.func)):
                fields = {each.arg or "**" for each in node.keywords}
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                event = ast.unparse(node.args[0]) if node.args else ""
                yield LogCall(place, level, event, frozenset(fields - {_TRACEBACK}))


def _level(called: ast.expr) -> str | None:
    if not isinstance(called, ast.Attribute) or called.attr not in LEVELS:
        return None
    return called.attr if ast.unparse(called.value).endswith("_log") else None


def logged_as(folder: Path, events: type[StrEnum]) -> dict[str, Logged]:
    """What is logged under each member of `events`, by the member's value."""
    found: dict[str, list[LogCall]] = defaultdict(list)
    for call in log_calls(folder):
        enum, _, member = call.event.partition(".")
        if enum == events.__name__:
            found[events[member].value].append(call)
    return {
        event: Logged(
            frozenset(call.level for call in calls),
            frozenset[str]().union(*(call.fields for call in calls)),
        )
        for event, calls in found.items()
    }


def documented(page: str) -> dict[str, Logged]:
    """What a page of the docs says is logged, from the rows of its tables."""
    rows = _ROW.findall((ROOT / page).read_text(encoding="utf-8"))
    return {
        event: Logged(frozenset(levels.split(", ")), frozenset(re.findall(r"`(\w+)`", fields)))
        for event, levels, fields in rows
    }
