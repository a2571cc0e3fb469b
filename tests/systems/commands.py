"""The command line in this process: quicker than one of its own, which `tests/e2e` starts."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.cli.main import cli
from tests.processes import Ended

_RUNNER = CliRunner()


def run_here(
    environment: Mapping[str, str], folder: Path, *arguments: str, stdin: str = ""
) -> Ended:
    """`headgate ARGUMENTS…` in that folder, to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        result = _RUNNER.invoke(cli, arguments, prog_name="headgate", input=stdin)
    # What it logs to is closed by now.
    log.configure(SystemClock(), json=True, level="critical")
    return Ended(result.exit_code, result.stdout, result.stderr)
