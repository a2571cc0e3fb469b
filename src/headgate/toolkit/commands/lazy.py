"""Lazy commands: help needs only their names and descriptions; calling one imports its code."""

import sys
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from headgate.base.errors import InvalidInput
from headgate.base.lazy import load
from headgate.system import Command
from headgate.toolkit.commands.command_line import prepare, report_mistake

#: What the shell is told of a command that cannot be loaded.
CONFIG = 4


class LazyCommand(TyperCommand):
    """A placeholder for a command, or for a group of commands."""

    def __init__(self, described: Command) -> None:
        """Take name and help from the description; import the code when it is called."""
        super().__init__(
            # With a short help of its own, none is cut off in a narrow terminal.
            described.name,
            help=described.help,
            short_help=described.help,
            rich_markup_mode=None,
        )
        self.address = described.address

    # Running, help and completion all make the command's context first, and then go on with the
    # command in that context. The types of the arguments are Typer's own.
    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Make the context of the real command."""
        return self.load().make_context(*args, **extra)

    def load(self) -> TyperCommand | TyperGroup:
        """Import the real command."""
        try:
            loaded = load(self.address, field=str(self.name))
        except InvalidInput as error:
            typer.echo(f"error {error}", err=True)
            raise typer.Exit(CONFIG) from None
        if isinstance(loaded, typer.Typer):
            # Boxes cut the names of options, and make no sense in a pipe.
            loaded.rich_markup_mode = None
            group = get_group(loaded)
            group.name = self.name
            prepare(group)
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name)(loaded)
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        prepare(command)
        return command


class LazyGroup(TyperGroup):
    """A group of lazy commands. Help and completion of names import none of them."""

    def describe(self, commands: Iterable[Command]) -> None:
        """Add these commands; a name that is taken keeps its command."""
        for each in commands:
            if each.name not in self.commands:
                self.add_command(LazyCommand(each))

    def main(self, args: Any = None, *more: Any, **extra: Any) -> Any:
        """Run a command line; a mistake in it is told as every other error is."""
        extra["standalone_mode"] = False
        try:
            sys.exit(super().main(args, *more, **extra) or 0)
        except typer.Abort:
            typer.echo("nothing was done", err=True)
            sys.exit(1)
        except typer.TyperException as error:
            report_mistake(error, json="--json" in (sys.argv if args is None else args))
            sys.exit(error.exit_code)
