"""Real processes for the tests, forked from one that has already imported Headgate.

To start Python and import everything takes more than a second of a core, a fork takes milliseconds;
and a fork is a process like any other: SIGKILL, SIGSTOP and a crash do to it what they always do.
What is about the command line's own start-up belongs to `subprocess`.
"""

import gc
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
#: Longer than anything takes: reached only when a test fails.
WAIT_S_MAX = 90.0

_server = multiprocessing.get_context("forkserver")
#: What processes of the tests import sooner or later, and none of them does at its own start.
_server.set_forkserver_preload(
    [
        # What is run is run by the name that pytest was started by, if it was by one.
        "pytest",
        "alembic.command",
        "alembic.context",
        "headgate.backends.sql",
        "headgate.cli.budgets",
        "headgate.cli.serve.engine",
        "headgate.cli.jobs",
        "headgate.cli.main",
        "headgate.cli.outbox",
        "headgate.net.aiohttp_transport",
        "headgate.senders.http",
        "headgate.limits.redis",
        "headgate.signals.postgres",
        "headgate.settings",
        "headgate.signals.sqlite",
        "headgate.store.sql.people.api_keys",
        "headgate.store.sql.connections",
        "headgate.store.sql.items.store",
        "headgate.store.sql.budgets.limiter",
        "headgate.store.sql.engine.postgres",
        "headgate.store.sql.jobs.store",
        "headgate.systems.activity_streams",
        "headgate.systems.daily_checkins",
        "headgate_sandbox.demo.command",
        "headgate.systems.notes_index",
        "headgate.systems.price_history",
        "headgate.web.server",
        "rich._emoji_codes",
        "structlog.dev",
        "tests.health",
        "uvloop",
    ]
)


def once_on(kind: str) -> pytest.MarkDecorator:
    """On that database always, on the other with what is thorough: for what is alike on both."""
    other = "postgres" if kind == "sqlite" else "sqlite"
    values = [kind, pytest.param(other, marks=pytest.mark.thorough)]
    return pytest.mark.parametrize("address", values, indirect=True)


class Process:
    """`python -m MODULE ARGUMENTS…` with pipes to its input, output and errors."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        theirs_in, our_in = _server.Pipe(duplex=False)
        our_out, theirs_out = _server.Pipe(duplex=False)
        our_errors, theirs_errors = _server.Pipe(duplex=False)
        theirs = (theirs_in, theirs_out, theirs_errors)
        environment = dict(os.environ if environment is None else environment)
        self._process = _server.Process(
            target=_run_module,
            args=(module, arguments, environment, str(folder), theirs),
            # Whoever forgets it here does not wait for it at the end.
            daemon=True,
        )
        self._process.start()
        for each in theirs:
            each.close()
        self.stdin = os.fdopen(_detached(our_in), "w", encoding="utf-8")
        self.stdout = os.fdopen(_detached(our_out), "r", encoding="utf-8")
        self.stderr = os.fdopen(_detached(our_errors), "r", encoding="utf-8")

    def wait_for_line(self, start: str) -> str:
        """Read its output until a line begins with that."""
        for line in self.stdout:
            if line.startswith(start):
                return line
        raise AssertionError(f"ended without saying {start!r}: {self.stderr.read()}")

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended: its code, or the negative number of a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout_s: float = WAIT_S_MAX) -> int:
        """Wait until it has ended; how."""
        self._process.join(timeout_s)
        code = self.poll()
        assert code is not None, f"still runs after {timeout_s} s"
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it, if it still runs, and let go of it."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    stdout: str
    stderr: str


@contextmanager
def started(
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Iterator[Process]:
    """A process that goes on, killed at the end of the block."""
    process = Process(module, *arguments, environment=environment, folder=folder)
    try:
        yield process
    finally:
        process.end()


def run(
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Ended:
    """A process run to its end, which must not say more than a pipe holds on its errors."""
    with started(module, *arguments, environment=environment, folder=folder) as process:
        said = process.stdout.read()
        return Ended(process.wait(), said, process.stderr.read())


def _detached(connection: Connection) -> int:
    """The descriptor alone."""
    descriptor = os.dup(connection.fileno())
    connection.close()
    return descriptor


def _run_module(
    module: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    folder: str,
    streams: tuple[Connection, Connection, Connection],
) -> None:
    """In the forked process: become what `python -m` would have started."""
    # What was imported before is none of the collector's business, and stays shared.
    gc.freeze()
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = os.fdopen(0, "r", encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
