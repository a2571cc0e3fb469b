"""Commands that are known by name and help alone, and imported when they are called."""

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
    """Stands in for a command or a group of commands."""

    def __init__(self, described: Command) -> None:
        """Import what is at its address when it is called."""
        super().__init__(described.name, help=described.help)
        self.address = described.address

    # Whoever runs, helps with or completes a command asks for its context first, and then goes on
    # with the command in that context. Its types are Typer's own business.
    def make_context(self, *args: Any, **extra: Any) -> Any:
        """The context of the command that it stands for."""
        return self.load().make_context(*args, **extra)

    def load(self) -> TyperCommand | TyperGroup:
        """Import what it stands for."""
        try:
            found = load(self.address, field=str(self.name))
        except InvalidInput as error:
            typer.echo(f"error {error}", err=True)
            raise typer.Exit(CONFIG) from None
        if isinstance(found, typer.Typer):
            group = get_group(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


class LazyGroup(TyperGroup):
    """Commands by their descriptions. Help and completion of names import none of them."""

    def describe(self, commands: Iterable[Command]) -> None:
        """Add these; a name that is taken keeps the command that it has."""
        for each in commands:
            if each.name not in self.commands:
                self.add_command(LazyCommand(each))
