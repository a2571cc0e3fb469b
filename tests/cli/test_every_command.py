"""Every command of Headgate and of the systems: its help, its example, its options, its errors."""

import functools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator

import pytest
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command
from typer.testing import CliRunner

from headgate.cli.main import cli
from headgate.toolkit.commands.command_line import example_of
from headgate.toolkit.commands.lazy import LazyCommand


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Every command, by the words that are typed for it."""
    top = get_command(cli)
    assert isinstance(top, TyperGroup)
    for name, placeholder in top.commands.items():
        assert isinstance(placeholder, LazyCommand)
        loaded = placeholder.load()
        if isinstance(loaded, TyperGroup):
            for each, command in loaded.commands.items():
                assert isinstance(command, TyperCommand)
                yield f"{name} {each}", command
        else:
            yield name, loaded


ALL = dict(commands())
GROUPS = ["", *sorted({name.split()[0] for name in ALL if " " in name})]


def check_each(check: Callable[[str], None], names: Iterable[str] = ALL) -> None:
    """Check each command, and name all that fail with what is wrong."""
    failed = {}
    for name in names:
        try:
            check(name)
        except AssertionError as error:
            failed[name] = str(error)
    assert failed == {}


@functools.cache
def help_of(name: str, columns: int) -> str:
    helped = CliRunner().invoke(cli, [*name.split(), "--help"], env={"COLUMNS": str(columns)})
    assert helped.exit_code == 0
    return helped.stdout


def test_all_groups_are_walked() -> None:
    assert len(ALL) > 60 and {"job submit", "worker", "notes search", "demo", "sandbox"} <= set(ALL)


def test_a_list_of_commands_is_not_cut_off() -> None:
    def check(group: str) -> None:
        assert "..." not in help_of(group, 60).replace("[ARGS]...", "")

    check_each(check, GROUPS)


@pytest.mark.parametrize("columns", [60, 120])
def test_help_can_be_read(columns: int) -> None:
    def check(name: str) -> None:
        text = help_of(name, columns)
        # What is to be typed is told in words, and not by types of Python or as a choice of one.
        assert not re.search(r"<(bool|str|int|float|path|list)|\{|\.\.\.\.", text)
        # No boxes, also for pipes, and nothing is cut off.
        assert not re.search("[╭│╰…]", text.replace("(…)", ""))
        for parameter in ALL[name].params:
            if isinstance(parameter, TyperOption) and not parameter.hidden:
                options = (*parameter.opts, *parameter.secondary_opts)
                assert [option for option in options if option not in text] == []
                assert parameter.help

    check_each(check)


def test_help_has_an_example_that_the_command_understands() -> None:
    def check(name: str) -> None:
        example = example_of(ALL[name])
        assert example is not None
        lines = help_of(name, 60).partition("Example:\n")[2].splitlines()
        # A narrow terminal breaks no line of it, and a shell takes the lines as one.
        assert all(len(line) <= 60 for line in lines)
        assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(example)
        own = next(part for part in re.split(r"[|>]", example) if f"headgate {name}" in part)
        words = shlex.split(own)[1 + len(name.split()) :]
        assert ALL[name].make_context(name, words, resilient_parsing=False).params

    check_each(check)


def test_programs_can_read_what_it_prints() -> None:
    def check(name: str) -> None:
        assert "--json" in {option for each in ALL[name].params for option in each.opts}

    check_each(check)


def test_ids_may_be_many_and_are_completed() -> None:
    def check(name: str) -> None:
        for each in ALL[name].params:
            if isinstance(each, TyperArgument) and (each.name or "").endswith(("_id", "_ids")):
                assert each._custom_shell_complete is not None
                assert "beginning" in (each.help or "")
                assert each.nargs != -1 or "stdin" in (each.help or "")

    check_each(check)


def test_a_mistake_is_told_in_json_where_json_is_asked_for() -> None:
    def check(name: str) -> None:
        ended = CliRunner().invoke(cli, [*name.split(), "--no-such-option", "--json"])
        assert ended.exit_code == 2
        assert "--no-such-option" in json.loads(ended.stdout)["error"]["message"]

    check_each(check)
