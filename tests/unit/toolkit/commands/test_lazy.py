"""A command that is imported when it is called: found, helped with and completed as any other."""

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.main import cli
from tests.unit.test_public_face import ALL


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="headgate", env=env)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("headgate ", [each.name for each in ALL]),
        ("headgate k", ["keys"]),
        ("headgate keys ", ["new", "rotate"]),
        ("headgate worker --lane ", ["hot", "cold", "all"]),
    ],
)
def test_a_shell_completes_names_at_every_level(typed: str, offered: list[str]) -> None:
    last = str(len(typed.split(" ")) - 1)
    result = run(_HEADGATE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=last)
    assert result.stdout.split() == offered


def test_help_of_a_command_names_the_way_to_it() -> None:
    assert "Usage: headgate job list [OPTIONS]" in run("job", "list", "-h").stdout
    assert "Usage: headgate migrate [OPTIONS]" in run("migrate", "-h").stdout


@pytest.mark.parametrize("name", ["sandbox", "demo"])
def test_without_the_sandboxes_their_commands_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("headgate.cli.main.commands_of_others", list)

    result = run(name, "--help")

    assert result.exit_code == 4
    assert "install headgate[sandbox]" in result.stderr


def test_a_mistyped_command_is_told_with_the_one_that_was_meant() -> None:
    result = run("jbo")
    assert result.exit_code == 2
    assert "Did you mean 'job'?" in result.stderr
