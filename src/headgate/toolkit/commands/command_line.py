"""What every command has: help with an example that fits any terminal, errors that name options.

A command is prepared when it is loaded (`lazy.py`), so those of systems get the same.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import wraps
from typing import Any, NoReturn, TypeVar, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from headgate.base.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])

#: The attribute of a command's function that has its example.
_EXAMPLE = "__example__"
#: How long a line of an example is at most: with its indent it fits 60 columns.
EXAMPLE_WIDTH = 52
#: A word of an example, an option with its value, or a text in quotes: not to be broken.
_PART = re.compile(r"""(?:-\S+ (?=[^-\s]))?(?:"[^"]*"|'[^']*'|\S)+""")
#: How the validation of values begins its errors, which tells nobody anything.
_NOISE = "Value error, "

_running: ContextVar[TyperCommand | None] = ContextVar("running", default=None)


def example(line: str) -> Callable[[F], F]:
    """Show `line` as an example at the end of the command's help."""

    def decorate(function: F) -> F:
        setattr(function, _EXAMPLE, line)
        return function

    return decorate


def example_of(command: TyperCommand) -> str | None:
    """The example of a command, if it has one."""
    found: str | None = getattr(command.callback, _EXAMPLE, None)
    return found


def prepare(command: TyperCommand | TyperGroup) -> None:
    """Give a command, or all commands of a group, what every command has."""
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            if isinstance(each, TyperCommand | TyperGroup):
                prepare(each)
        return
    for parameter in command.params:
        _name_value(parameter)
    # With a short help of its own, none is cut off in a narrow terminal.
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    if (line := example_of(command)) is not None:
        # \b: the example keeps its line breaks.
        command.epilog = f"\b\nExample:\n  {broken_example(line)}"
    if command.callback is not None:
        command.callback = _remember(command, command.callback)


def broken_example(line: str) -> str:
    """The example in lines that a narrow terminal need not break; a shell takes them as one."""
    lines = [""]
    for part in _PART.findall(line):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > EXAMPLE_WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".lstrip()
    return " \\\n    ".join(lines)


def _name_value(parameter: object) -> None:
    """Call what a parameter takes by a word, and not by its type in Python, such as `<list[str]>`.

    The values of an enumeration are named, because nothing else may be typed; those of several in
    the text, where they can be broken into lines.
    """
    if isinstance(parameter, TyperArgument):
        name = parameter.metavar = parameter.metavar or (parameter.name or "").upper()
        several = "..." if parameter.nargs != 1 else ""
        shown = f"{name}{several}" if parameter.required else f"[{name}]{several}"
        parameter.get_usage_pieces = lambda ctx: [shown]  # type: ignore[method-assign]
        parameter.display_type_rich = lambda ctx: ""  # type: ignore[method-assign]
    elif isinstance(parameter, TyperOption) and parameter.metavar is None:
        values = _values(parameter.type_descriptor.annotation)
        if not values or parameter.multiple:
            parameter.metavar = (parameter.name or "").upper()
        if values and parameter.multiple:
            parameter.help = f"{parameter.help} One of {', '.join(values)}; may be repeated."


def _values(taken: object) -> list[str]:
    """What may be typed for a type, if it is an enumeration, or has one in it."""
    if isinstance(taken, type) and issubclass(taken, Enum):
        return [str(each.value) for each in taken]
    return [value for each in get_args(taken) for value in _values(each)]


def _remember(command: TyperCommand, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        with _running_as(command):
            return function(*args, **given)

    return called


@contextmanager
def _running_as(command: TyperCommand) -> Iterator[None]:
    token = _running.set(command)
    try:
        yield
    finally:
        _running.reset(token)


def error_text(error: Exception) -> str:
    """The text of an error; where it names a field, the option that the user typed instead."""
    if not isinstance(error, InvalidInput):
        return str(error)
    return f"{option_named(error.field)}: {error.problem}"


def option_named(field: str) -> str:
    """The option or argument of the running command for this field, else the field itself.

    `user_id` is `--user`, and of several names it is the one that was typed.
    """
    command = _running.get()
    for parameter in () if command is None else command.params:
        if parameter.name not in (field, field.removesuffix("_id"), field.removesuffix("_s")):
            continue
        return _name_of(parameter) or field
    return field


def report_mistake(error: typer.TyperException, *, json: bool) -> None:
    """Print a mistake in the command line itself, such as a value that cannot be read."""
    message = error.format_message()
    if isinstance(error, typer.BadParameter) and error.message:
        message = f"{_name_of(error.param) or 'error'}: {error.message.removeprefix(_NOISE)}"
    # Not before: a command that is understood need not wait for it.
    from headgate.toolkit.commands.output import messages, print_json

    if json:
        print_json({"error": {"type": "InvalidInput", "message": message}})
    elif isinstance(error, typer.BadParameter):
        messages.print(f"error {message}", markup=False)
        if error.ctx is not None:
            messages.print(f"see: {error.ctx.command_path} --help", markup=False)
    else:
        error.show()  # type: ignore[attr-defined] # Every one that Typer raises itself has it.


def _name_of(parameter: object) -> str | None:
    """What people type for a parameter; of several names, the one that was typed."""
    if isinstance(parameter, TyperArgument):
        return parameter.metavar
    if not isinstance(parameter, TyperOption):
        return None
    given = [name for name in parameter.opts if _is_typed(name)]
    spelled_out = [name for name in parameter.opts if name.startswith("--")]
    return (given or spelled_out)[-1]


def _is_typed(option: str) -> bool:
    return any(each == option or each.startswith(f"{option}=") for each in sys.argv[1:])


def end_quietly(code: str | int | None = 0) -> NoReturn:
    """End without a word: nobody reads what is still to be printed, such as after `head`."""
    # The interpreter flushes stdout once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)
