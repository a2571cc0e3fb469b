"""A measured program as the benchmark sees it: processes that are asked, listened to and killed."""

import asyncio
import json
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

ROOT = Path(__file__).resolve().parent.parent
#: Nothing that is measured takes longer.
ANSWER_S_MAX = 180.0
STOP_S_MAX = 20.0
#: How often the queue is looked at until it is empty.
LOOK_S = 0.01

Said = dict[str, Any]


class ProgramFailed(RuntimeError):
    """A measured program did not answer; the message has the end of what it wrote."""


class Process:
    """A running process, and what it says."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        """Start it; what it logs goes to a file in `folder`, as under a service manager."""
        self._errors = folder / f"{time.monotonic_ns()}.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._lines: queue.Queue[Said | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._lines.put(json.loads(line))
        self._lines.put(None)

    def ask(self, do: str, **given: object) -> Said:
        """The answer to a command."""
        assert self._process.stdin is not None
        # One that has ended says why when it is listened to.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
            self._process.stdin.flush()
        return self.hear("ended")

    def hear(self, name: str, timeout_s: float = ANSWER_S_MAX) -> Said:
        """The next line that has a `name`."""
        ends = time.monotonic() + timeout_s
        while True:
            try:
                said = self._lines.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"nothing heard of {name} for {timeout_s:g} s") from None
            if said is None:
                raise self._failure()
            if name in said:
                return said

    def check_alive(self) -> None:
        """Raise if it has ended by itself."""
        if self._process.poll() is not None:
            raise self._failure()

    def _failure(self) -> ProgramFailed:
        return ProgramFailed(self._errors.read_text(encoding="utf-8")[-2000:])

    def last_words(self, name: str) -> Said | None:
        """The line that has a `name`, of a process that was stopped; None if there is none."""
        try:
            return self.hear(name)
        except ProgramFailed:
            return None

    def freeze(self) -> None:
        """Let it stand still; when this returns, it does."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def stop(self) -> None:
        """End it as a service manager does."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()


class QueueProgram(NamedTuple):
    """A program with a queue of jobs, on one database."""

    name: str
    #: How its script is started, in front of the role.
    command: Sequence[str]
    url: str
    #: For what its processes write.
    folder: Path

    @contextmanager
    def client(self) -> Iterator["ClientProcess"]:
        """A process that submits."""
        process = Process([*self.command, "client", self.url], self.folder)
        try:
            yield ClientProcess(process)
        finally:
            process.stop()

    @contextmanager
    def worker(
        self, settings: str, *, expect: int = 0, hold: Path | None = None
    ) -> Iterator[Process]:
        """A process that works on jobs; `expect` so many measured ones."""
        process = Process(
            [*self.command, "worker", self.url, settings],
            self.folder,
            BENCH_EXPECT=str(expect),
            BENCH_HOLD="" if hold is None else str(hold),
        )
        try:
            yield process
        finally:
            process.stop()

    def freeze(self, worker: Process) -> None:
        """Let a worker stand still, outside of a transaction: it would keep everybody waiting."""
        worker.freeze()
        while self._is_locked():
            worker.thaw()
            time.sleep(LOOK_S)
            worker.freeze()

    def _is_locked(self) -> bool:
        """Whether somebody has the write lock of a SQLite file; Postgres locks rows."""
        if not self.url.startswith("sqlite"):
            return False
        file = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

    def settle_down(self) -> None:
        """What would have happened by then: autovacuum on Postgres, a checkpoint on SQLite."""
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            asyncio.run(_analyze(self.url))


async def _analyze(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("ANALYZE")
    await connection.close()


class ClientProcess:
    """A process that submits, and looks whether all is done."""

    def __init__(self, process: Process) -> None:
        """Ask `process`."""
        self._process = process

    def setup(self) -> None:
        """Make the tables, and empty them."""
        self._process.ask("setup")

    def submit(self, kind: str, count: int = 1) -> Said:
        """Submit one after another."""
        return self._process.ask("submit", kind=kind, count=count)

    def submit_many(self, kind: str, count: int) -> Said:
        """Submit many at once."""
        return self._process.ask("submit_many", kind=kind, count=count)

    def wait_until_empty(
        self,
        workers: Sequence[Process],
        *,
        timeout_s: float = ANSWER_S_MAX,
        look_s: float = LOOK_S,
    ) -> int:
        """When no job was left; the workers have to be alive until then."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            for worker in workers:
                worker.check_alive()
            said = self._process.ask("any_left")
            if not said["left"]:
                return int(said["ended"])
            time.sleep(look_s)
        raise TimeoutError(f"jobs are left after {timeout_s:g} s")


def python_program(
    name: str, script: str, url: str, folder: Path, python: str = sys.executable
) -> QueueProgram:
    """A program whose script is a module of `bench.peer_scripts`."""
    return QueueProgram(name, [python, "-m", f"bench.peer_scripts.{script}"], url, folder)


def seconds(said: Said) -> float:
    """How long the asked thing took."""
    return float(said["ended"] - said["began"]) / 1e9
