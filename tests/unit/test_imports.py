"""What a start loads: whoever imports Headgate, or asks a command for help, waits for no more."""

import subprocess
import sys

import pytest

from tools.python_reference import MODULES

#: msgspec uses typing_extensions where it finds them.
CORE = {"headgate", "msgspec", "typing_extensions"}
#: The sandboxes describe their commands.
TYPER = {"annotated_doc", "headgate_sandbox", "shellingham", "typer"}
#: What Typer prints help with, and what that uses where it finds it.
HELP = {"attr", "markdown_it", "mdurl", "pygments", "rich"}
#: What Typer reads options with, before it looks at a command.
OPTIONS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}

_LIST = """
import sys
before = set(sys.modules)
try:
    {statement}
finally:
    found = {{name.partition(".")[0] for name in sys.modules.keys() - before}}
    found -= sys.stdlib_module_names
    # With an underscore: parts of others, and of the interpreter.
    print("loaded:", *sorted(name for name in found if not name.startswith("_")))
"""


def _loaded(statement: str) -> set[str]:
    """The packages of others that a fresh interpreter has loaded after a statement."""
    done = subprocess.run(
        [sys.executable, "-c", _LIST.format(statement=statement)],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return set(done.stdout.splitlines()[-1].removeprefix("loaded:").split())


def test_no_public_module_loads_a_driver_a_framework_or_a_model_before_it_is_used() -> None:
    modules = set(MODULES) - {"headgate.toolkit.tables"}
    unneeded = _loaded(f"import {', '.join(modules)}") - CORE
    assert not unneeded, f"an import loads {', '.join(sorted(unneeded))}"


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ("--version", CORE | TYPER),
        ("--help", CORE | TYPER | HELP),
        *(
            pytest.param(command, CORE | TYPER | HELP | OPTIONS, marks=pytest.mark.thorough)
            for command in ("job list --help", "migrate --help")
        ),
    ],
)
def test_help_loads_only_what_it_is_printed_with(arguments: str, allowed: set[str]) -> None:
    run = f"from headgate.cli.main import cli; cli({arguments.split()})"
    unneeded = _loaded(run) - allowed
    assert not unneeded, f"headgate {arguments} loads {', '.join(sorted(unneeded))}"
