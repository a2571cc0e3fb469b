"""The command line in processes of its own."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
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


@contextmanager
def serving(
    environment: Mapping[str, str], folder: Path, *options: str
) -> Iterator[tuple[str, processes.Process]]:
    """`headgate serve`; where it is, and the process."""
    with started(environment, folder, "serve", "--port", "0", *options) as process:
        lines = iter(process.stderr.readline, "")
        said = next(each for each in lines if each.startswith("serving "))
        yield said.removeprefix("serving ").partition(";")[0], process
