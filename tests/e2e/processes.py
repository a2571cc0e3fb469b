"""The command line in processes of its own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LONGEST_S = 60


def headgate(environment: Mapping[str, str], folder: Path, *arguments: str) -> str:
    """Run a command to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=True,
    )
    return done.stdout


@contextmanager
def started(
    environment: Mapping[str, str], folder: Path, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on, killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", *arguments],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
