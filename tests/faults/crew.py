"""Real processes of one module around a test, and a way to freeze one without its file's lock."""

import asyncio
import os
import signal
import sqlite3

from tests.processes import Process


class Crew:
    """Processes that say "ready" when they work, and are gone afterwards."""

    def __init__(self, module: str, **environment: str) -> None:
        self._module = module
        self._environment = {**os.environ, **environment}
        self.started: list[Process] = []

    def start(self, **more: str) -> Process:
        """Start one, with more in its environment, and wait until it works."""
        process = Process(self._module, environment={**self._environment, **more})
        self.started.append(process)
        process.wait_for_line("ready")
        return process

    def end(self) -> None:
        """Kill all that still run."""
        for process in self.started:
            process.end()


async def freeze(process: Process, *places: str) -> None:
    """Stop a process while it holds no write lock on a SQLite file, jobs or others.

    One that is frozen with the lock stops everybody: that is SQLite's nature, and why several
    processes on one file are not how Headgate scales. On Postgres the locks are freed.
    """
    files = [
        place.removeprefix("sqlite:///") for place in places if not place.startswith("postgres")
    ]
    for _ in range(100):
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.05)
        if all(map(_can_write, files)):
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.01)
    raise AssertionError("the process holds a lock whenever it is looked at")


def _can_write(file: str) -> bool:
    """Whether nobody holds the write lock of a SQLite file."""
    database = sqlite3.connect(file, timeout=0)
    try:
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        database.close()
    return True
