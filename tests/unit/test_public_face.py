"""The public face: what is exported, in order; every setting and command is documented."""

from pathlib import Path

import pytest

import headgate
from headgate import Command
from headgate.cli.main import COMMANDS
from headgate.discovery import installed_systems
from headgate.settings import Settings
from headgate.toolkit.commands.lazy import LazyCommand

ROOT = Path(__file__).parents[2]
#: Headgate's own, and those of the installed systems.
ALL = [
    *COMMANDS,
    *(one for each in installed_systems() if each.system for one in each.system.commands),
]


def test_everything_exported_is_there_and_sorted() -> None:
    assert headgate.__all__ == sorted(headgate.__all__)
    for name in headgate.__all__:
        assert hasattr(headgate, name)


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert f"`HEADGATE_{name.upper()}`" in row
        default = row.split("|")[3].strip().strip("`")
        told = (
            "none"
            if field.default is None or field.default == {}
            else f"{field.default:.15g}"
            if isinstance(field.default, int | float)
            else field.default
        )
        assert default == told


def test_every_command_has_a_sentence_of_help() -> None:
    ahead = [LazyCommand(each).load() for each in ALL]
    while ahead:
        each = ahead.pop()
        assert each.help, each.name
        ahead += getattr(each, "commands", {}).values()


@pytest.mark.parametrize("listed", ALL, ids=lambda each: str(each.name))
def test_a_command_is_listed_as_it_tells_itself(listed: Command) -> None:
    itself = LazyCommand(listed).load()
    assert itself.help is not None
    first_paragraph = itself.help.partition("\n\n")[0].replace("\n", " ")
    assert (listed.name, listed.help) == (itself.name, first_paragraph)
