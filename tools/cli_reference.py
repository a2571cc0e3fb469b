"""Describes every command of `headgate` from what the command line itself knows of it."""

from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from typing import Any, get_args

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from headgate.cli.main import COMMANDS, cli, commands_of_others
from headgate.discovery import installed_systems
from headgate.toolkit.commands.lazy import LazyCommand

_INTRODUCTION = """\
# The command line

Generated from the commands by `make reference`; edit their help, not this page.

Data goes to stdout and words to stderr. Exit codes: 0 done · 1 failed · 2 wrong usage · 3 not
confirmed · 4 settings or access · 5 what was awaited has ended badly · 8 it was still running at
`--timeout` · 130 interrupted.

Settings that many commands share come from [the settings](settings.md) where no option names them.
"""
#: What every command has is said once.
_EVERYWHERE = {"help"}


def page() -> str:
    """The whole page, as it should be."""
    group = get_command(cli)
    assert isinstance(group, TyperGroup)
    own = {each.name for each in COMMANDS}
    parts = [_INTRODUCTION, "## Commands\n", *_described(group, own)]
    for each in installed_systems():
        names = {command.name for command in each.system.commands} if each.system else set()
        if each.system is not None and names - own:
            parts += [f"## Of the system {each.name}\n", *_described(group, names - own)]
    names = {each.name for each in commands_of_others()}
    parts += ["## Of the extra sandbox\n", *_described(group, names)]
    return "\n".join(parts).rstrip() + "\n"


def _described(group: TyperGroup, names: set[str]) -> Iterator[str]:
    for name in sorted(names):
        found = group.commands[name]
        loaded = found.load() if isinstance(found, LazyCommand) else found
        yield from _command(f"headgate {name}", loaded)


def _command(path: str, command: Any) -> Iterator[str]:
    """A command, or a group with its commands."""
    yield f"### `{path}`\n"
    yield f"{_text(command.help)}\n"
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _command(f"{path} {name}", each)
        return
    assert isinstance(command, TyperCommand)
    shown = [each for each in command.params if each.name not in _EVERYWHERE and not _hidden(each)]
    arguments = [each for each in shown if isinstance(each, TyperArgument)]
    options = [each for each in shown if isinstance(each, TyperOption)]
    yield _usage(path, arguments, options)
    if shown:
        rows = [*map(_row, arguments), *map(_row, options)]
        yield "\n".join(["| | what it is | by default |", "|---|---|---|", *rows, ""])


def _hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False))


def _text(described: str | None) -> str:
    """The help, without what Click uses to end it early or to keep lines as they are."""
    return cleandoc(described or "").partition("\f")[0].replace("\b\n", "").strip()


def _usage(path: str, arguments: list[TyperArgument], options: list[TyperOption]) -> str:
    needed = [f"{each.opts[0]} {_value(each)}" for each in options if each.required]
    named = [_name(each) if each.required else f"[{_name(each)}]" for each in arguments]
    others = ["[OPTIONS]"] if any(not each.required for each in options) else []
    return f"```text\n{' '.join([path, *named, *needed, *others])}\n```\n"


def _name(argument: TyperArgument) -> str:
    """As help spells it; some name themselves with the dots of several, and some do not."""
    several = "..." if argument.nargs == -1 else ""
    return f"{argument.metavar or str(argument.name)}".upper().strip("{}[].") + several


def _value(option: TyperOption) -> str:
    """What an option takes; nothing if it is a switch."""
    if option.is_flag:
        return ""
    taken = option.type_descriptor.annotation
    for kind in (taken, *get_args(taken)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return "|".join(str(each.value) for each in kind)
    return (option.metavar or str(option.name)).upper()


def _row(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter, TyperArgument):
        name = f"`{_name(parameter)}`"
    else:
        spelled = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
        name = " ".join(
            filter(None, [spelled, f"`{value}`" if (value := _value(parameter)) else ""])
        )
    said = _text(getattr(parameter, "help", None)).replace("\n", " ")
    cells = (name, said, _default(parameter))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(parameter: TyperArgument | TyperOption) -> str:
    default = parameter.default
    if parameter.required:
        return "needed"
    if default is None or callable(default) or default in (False, "", ()):
        return ""
    return f"`{getattr(default, 'value', default)}`"
