"""The tutorial, as its reader follows it: from an empty folder, in a shell, step by step."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.markdown import Kind, Step, is_printed, steps
from tests.processes import ROOT

TUTORIAL = ROOT / "docs/tutorial/first-connector.md"
#: As long as a job may take to try again; what a reader looks at until it is so.
LOOKS_MAX = 20
BINARIES = Path(sys.executable).parent


class Reader:
    """Somebody with a folder and some terminals."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._started: dict[str, subprocess.Popen[str]] = {}

    def follow(self, step: Step) -> None:
        """Do what a step says, and check what it prints."""
        match step.kind:
            case Kind.FILE:
                (self._folder / step.name).write_text(step.text, encoding="utf-8")
            case Kind.START:
                self._start(step)
            case Kind.STOP:
                self._stop(step.text)
            case Kind.RUN:
                self._run(step)

    def close(self) -> None:
        """Close every terminal."""
        for command in list(self._started):
            self._stop(command)

    def _start(self, step: Step) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {step.text.strip()} 2>&1"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._started[step.text] = process
        assert process.stdout is not None
        printed = ""
        # A command that goes on has begun when it says so.
        while not printed or not is_printed(step.prints, printed):
            line = process.stdout.readline()
            assert line, f"{step.text} has ended: {printed}"
            printed += line

    def _stop(self, command: str) -> None:
        [started] = [each for each in self._started if each.startswith(command)]
        process = self._started.pop(started)
        process.send_signal(signal.SIGINT)
        # What it says meanwhile is read, so that it does not wait for somebody who does.
        process.communicate(timeout=60)

    def _run(self, step: Step) -> None:
        commands = step.text.replace("JOB_ID", self._newest_job() if "JOB_ID" in step.text else "")
        printed = self._shell(commands)
        for _ in range(LOOKS_MAX):
            if is_printed(step.prints, printed):
                return
            # Looked at again, by the last command alone: it takes its time.
            printed = self._shell(commands.strip().splitlines()[-1])
        raise AssertionError(f"{commands}printed, and not what the page says:\n{printed}")

    def _shell(self, commands: str) -> str:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert ended.returncode == 0, commands + ended.stdout + ended.stderr
        return ended.stdout

    def _newest_job(self) -> str:
        return str(json.loads(self._shell("headgate job list --json"))["data"][0]["id"])


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    """A reader in an empty folder, with nothing set but the path to the programs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    here = Reader(folder, {**clean, "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}"})
    try:
        yield here
    finally:
        here.close()


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_every_step_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = TUTORIAL.read_text(encoding="utf-8").replace("8001", str(port))
    found = steps(page)
    assert {step.kind for step in found} == set(Kind)

    with reader(tmp_path) as here:
        for step in found:
            here.follow(step)
