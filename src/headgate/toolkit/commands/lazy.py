"""Lazy commands: help needs only their names and descriptions; calling one imports its code."""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from headgate.base.errors import InvalidInput
from headgate.base.lazy import load
from headgate.system import Command

#: What the shell is told of a command that cannot be loaded.
CONFIG = 4


class LazyCommand(TyperCommand):
    """A placeholder for a command, or for a group of commands."""

    def __init__(self, described: Command) -> None:
        """Take name and help from the description; import the code when it is called."""
        super().__init__(described.name, help=described.help)
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
            group = get_group(loaded)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(loaded)
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


class LazyGroup(TyperGroup):
    """A group of lazy commands. Help and completion of names import none of them."""

    def describe(self, commands: Iterable[Command]) -> None:
        """Add these commands; a name that is taken keeps its command."""
        for each in commands:
            if each.name not in self.commands:
                self.add_command(LazyCommand(each))
