"""`headgate systems`: lists the installed systems, and whether each can start."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.cli.main import COMMANDS
from headgate.discovery import InstalledSystem, examine_systems
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import CONFIG, JsonOption, fail, load_settings
from headgate.toolkit.commands.output import messages, out, print_json, print_table

_MARKS = {
    "ready": ("✔", "green"),
    "not chosen": ("○", "dim"),
    "lacks settings": ("✘", "yellow"),
    "broken": ("✘", "red"),
}


@example("headgate systems")
def systems(json: JsonOption = False) -> None:
    """List the installed systems, and what each lacks.

    `headgate serve --with-worker` runs all systems that are ready. To choose some, set
    HEADGATE_SYSTEMS to their names, separated by commas.
    """
    settings = load_settings(json=json)
    try:
        found = examine_systems(settings)
    except InvalidInput as error:
        fail(str(error), code=CONFIG, json=json)
    if json:
        known = _commands(found)
        print_json({"data": [_fields(each, known) for each in found]})
    elif not found:
        messages.print("no systems are installed")
    else:
        _print(found)


def _state(each: InstalledSystem) -> str:
    if not each.chosen:
        return "not chosen"
    if each.system is None:
        return "broken"
    return "lacks settings" if each.lacks else "ready"


def _fields(each: InstalledSystem, known: Mapping[str, str]) -> JsonObject:
    return {
        "name": each.name,
        "title": each.name if each.system is None else each.system.title,
        "origin": each.origin,
        "state": _state(each),
        "chosen": each.chosen,
        "ready": each.ready,
        "lacks": dict(each.lacks),
        "commands": [one.name for one in each.system.commands] if each.system else [],
        "commands_taken": _taken(each, known),
    }


def _commands(found: Sequence[InstalledSystem]) -> dict[str, str]:
    """The address that each command runs: Headgate's own come first, then those of systems."""
    known = {each.name: each.address for each in COMMANDS}
    for system in (each.system for each in found if each.system is not None):
        for each in system.commands:
            known.setdefault(each.name, each.address)
    return known


def _taken(each: InstalledSystem, known: Mapping[str, str]) -> list[str]:
    """The commands of a system whose names run something else."""
    described = () if each.system is None else each.system.commands
    return [one.name for one in described if known[one.name] != one.address]


def _notes(each: InstalledSystem, known: Mapping[str, str]) -> list[str]:
    """What keeps it from being started, and what is missing of it where it is."""
    lacks = [f"{name}: {problem}" for name, problem in each.lacks.items()]
    return lacks + [f"its command {name!r} is another's" for name in _taken(each, known)]


def _print(found: Sequence[InstalledSystem]) -> None:
    known = _commands(found)
    rows = []
    for each in found:
        mark, colour = _MARKS[_state(each)]
        state = Text(f"{mark} {_state(each)}", style=colour)
        between = "\n" if out.is_terminal else "; "
        rows.append((each.name, state, each.origin, between.join(_notes(each, known))))
    print_table(("system", "state", "from", "lacks"), rows)
