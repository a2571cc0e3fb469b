"""The command line in processes of its own."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests import processes


def headgate(environment: Mapping[str, str], folder: Path, *arguments: str) -> str:
    """Run a command to its end, which must be a good one; what it printed."""
    ended = processes.run("headgate", *arguments, environment=environment, folder=folder)
    assert ended.code == 0, ended.stderr
    return ended.stdout


def started(
    environment: Mapping[str, str], folder: Path, *arguments: str
) -> AbstractContextManager[processes.Process]:
    """A command that goes on, killed at the end of the block."""
    return processes.started("headgate", *arguments, environment=environment, folder=folder)
