"""Commands by their descriptions: a function, or a group, imported when it is called."""

import pytest
import typer
from typer.testing import CliRunner, Result

from headgate import Command
from headgate.toolkit.commands.lazy import LazyCommand, LazyGroup

HERE = __name__
shelf = typer.Typer(help="Books.", no_args_is_help=True)


@shelf.command("list")
def list_books(limit: int = 3) -> None:
    """List books."""
    typer.echo(f"{limit} books")


@shelf.command()
def burn() -> None:
    """Do not."""


def greet(name: str = "you") -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


def run(*arguments: str, commands: list[Command]) -> Result:
    """Run a command line of these commands."""

    class Commands(LazyGroup):
        def __init__(self, **settings: object) -> None:
            super().__init__(**settings)  # type: ignore[arg-type] # Typer's own business
            self.describe(commands)

    cli = typer.Typer(cls=Commands, add_completion=False)
    cli.callback()(lambda: None)
    return CliRunner().invoke(cli, list(arguments))


GREET = Command("greet", f"{HERE}:greet", "Greet somebody.")
SHELF = Command("shelf", f"{HERE}:shelf", "Books.")
NOWHERE = Command("nowhere", "nowhere_at_all:command", "It cannot be imported.")


def test_a_function_is_a_command_and_a_typer_a_group() -> None:
    assert run("greet", "--name", "ada", commands=[GREET, SHELF]).stdout == "hello ada\n"
    assert run("shelf", "list", "--limit", "5", commands=[GREET, SHELF]).stdout == "5 books\n"


def test_help_lists_what_cannot_be_imported_too() -> None:
    helped = run("--help", commands=[GREET, NOWHERE])

    assert helped.exit_code == 0
    assert "It cannot be imported." in helped.stdout and "Greet somebody." in helped.stdout


def test_help_of_a_command_is_its_own() -> None:
    assert "--name" in run("greet", "--help", commands=[GREET]).stdout
    assert "burn" in run("shelf", "--help", commands=[SHELF]).stdout


def test_a_name_that_is_taken_keeps_its_command() -> None:
    other = Command("greet", f"{HERE}:list_books", "Another.")

    assert run("greet", commands=[GREET, other]).stdout == "hello you\n"


def test_an_address_without_an_attribute_names_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as caught:
        LazyCommand(Command("greet", "json:nothing", "Greet.")).load()

    assert caught.value.exit_code == 4
    assert "greet: json has no 'nothing'" in capsys.readouterr().err
