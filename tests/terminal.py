"""The command line on a terminal: what somebody sees who sits in front of it."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    environment: Mapping[str, str], folder: Path, *arguments: str, answer: str = ""
) -> tuple[int, str]:
    """Run `headgate …` on a terminal of 80 columns; its code, and what is on the screen."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={
            **environment,
            "PYTHONPATH": str(folder),
            "TERM": "xterm",
            "COLUMNS": "80",
            "NO_COLOR": "1",
        },
    )
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    said = b""
    try:
        while part := os.read(ours, 65_536):
            said += part
    except OSError:
        pass  # On Linux the end of a terminal is an error.
    os.close(ours)
    return process.wait(), _CONTROL.sub("", said.decode()).replace("\r", "\n")
