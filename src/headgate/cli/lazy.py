"""Commands that are known by name and help alone, and imported when they are called."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class LazyCommand(TyperCommand):
    """Stands in for the command or the group of commands at `target`, a `module:attribute`."""

    def __init__(self, name: str, target: str, help: str) -> None:
        """Call it `name`; `help` is the first paragraph of what it says of itself."""
        super().__init__(name, help=help)
        self._target = target

    # Whoever runs, helps with or completes a command asks for its context first, and then goes on
    # with the command in that context. Its types are Typer's own business.
    def make_context(self, *args: Any, **extra: Any) -> Any:
        """The context of the command that it stands for."""
        return self.load().make_context(*args, **extra)

    def load(self) -> TyperCommand | TyperGroup:
        """Import what it stands for."""
        module, _, attribute = self._target.partition(":")
        found = getattr(import_module(module), attribute)
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
    """The commands of a table. Help and completion of names import none of them."""

    #: In the order in which they are listed.
    table: ClassVar[Sequence[LazyCommand]] = ()

    def __init__(self, **settings: Any) -> None:
        """A group, as Typer makes it, of the commands in the table."""
        super().__init__(**settings)
        for command in self.table:
            self.add_command(command)
