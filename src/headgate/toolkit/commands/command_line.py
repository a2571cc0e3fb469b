"""What every command has: help with an example that fits any terminal, errors that name options.

A command is prepared when it is loaded (`lazy.py`), so those of systems get the same.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from headgate.base.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])

#: The attribute of a command's function that has its example.
_EXAMPLE = "__example__"

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
        if isinstance(parameter, TyperArgument) and parameter.metavar is None:
            parameter.metavar = (parameter.name or "").upper()
    # With a short help of its own, none is cut off in a narrow terminal.
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    if (line := example_of(command)) is not None:
        # \b: the example keeps its line breaks.
        command.epilog = f"\b\nExample:\n  {line}"
    if command.callback is not None:
        command.callback = _remember(command, command.callback)


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
        message = f"{_name_of(error.param) or 'error'}: {error.message}"
    if json:
        from headgate.toolkit.commands.output import print_json

        print_json({"error": {"type": "InvalidInput", "message": message}})
    elif isinstance(error, typer.BadParameter):
        typer.echo(f"error {message}", err=True)
        if error.ctx is not None:
            typer.echo(f"see: {error.ctx.command_path} --help", err=True)
    else:
        error.show()  # type: ignore[attr-defined] # Every one that Typer raises itself has it.


def _name_of(parameter: object) -> str | None:
    """What people type for a parameter; of several names, the one that was typed."""
    if isinstance(parameter, TyperArgument):
        return parameter.metavar
    if not isinstance(parameter, TyperOption):
        return None
    given = [name for name in parameter.opts if _is_typed(name)]
    return (given or parameter.opts)[-1]


def _is_typed(option: str) -> bool:
    return any(each == option or each.startswith(f"{option}=") for each in sys.argv[1:])


def end_quietly(code: str | int | None = 0) -> NoReturn:
    """End without a word: nobody reads what is still to be printed, such as after `head`."""
    # The interpreter flushes stdout once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)
