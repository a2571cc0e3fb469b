"""The servers of one run of the tests: one of each kind, however many test processes there are.

The first process of a run starts this program, and every process asks it for the address of a
server, which starts when it is first asked for. All stop when the run ends, however it ends: the
program's standard input closes then. What a test stops, freezes or fills with faults is not one of
these: it starts one of its own by `servers` and `emulators`.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from tests import emulators, servers
from tests.browser import chromium
from tests.servers import ServerError

#: Where the test processes of a run find this program.
ADDRESS = "HEADGATE_TEST_RUN"
#: Several requests may come while a server starts.
_BACKLOG = 64
_START_S_MAX = 60.0

_STARTS: Mapping[str, Callable[[], AbstractContextManager[str]]] = {
    "postgres": servers.postgres_url,
    "valkey": servers.valkey_url,
    "ministack": emulators.ministack,
    "moto": emulators.moto,
    "chromium": chromium.served,
}


class RunServers:
    """The program, as the first process of a run starts and stops it."""

    def __init__(self) -> None:
        """Start it; its servers wait until they are asked for."""
        self._folder = tempfile.TemporaryDirectory(prefix="headgate-run-")
        address = str(Path(self._folder.name) / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.run_servers", address],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
        )
        os.environ[ADDRESS] = address

    def stop(self) -> None:
        """Stop all servers."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()
        del os.environ[ADDRESS]


def address_of(kind: str) -> str:
    """The address of the run's server of that kind, which runs from now on."""
    servers.refuse_if_unwanted()
    with Client(_reachable(os.environ[ADDRESS])) as connection:
        connection.send(kind)
        answer: str | ServerError = connection.recv()
    if isinstance(answer, ServerError):
        raise answer
    return answer


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The path of that name in the run's folder, which the first process that asks has made."""
    made = Path(os.environ[ADDRESS]).parent / name
    with made.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            draft = made.with_suffix(".draft")
            make(draft)
            draft.rename(made)
    return made


def _reachable(address: str) -> str:
    """The address, once the program listens there."""
    ready = Path(f"{address}.ready")
    ends_s = time.monotonic() + _START_S_MAX
    while not ready.exists():
        if time.monotonic() > ends_s:
            raise ServerError("the program with the servers of this run does not answer")
        time.sleep(0.02)
    return address


def _serve(address: str) -> None:
    """Answer until standard input closes, then stop what was started."""
    started: dict[str, str] = {}
    starting = threading.Lock()
    with ExitStack() as stack:

        def answer(connection: Connection) -> None:
            with connection:
                kind = connection.recv()
                with starting:
                    try:
                        if kind not in started:
                            started[kind] = stack.enter_context(_STARTS[kind]())
                        connection.send(started[kind])
                    except Exception as error:
                        connection.send(ServerError(f"{kind}: {error}"))

        def accept(listener: Listener) -> None:
            while True:
                threading.Thread(target=answer, args=(listener.accept(),), daemon=True).start()

        listener = Listener(address, backlog=_BACKLOG)
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        Path(f"{address}.ready").touch()
        sys.stdin.read()
        # Nobody asks any more, and what is starting has to be stopped too.
        starting.acquire()


if __name__ == "__main__":
    _serve(sys.argv[1])
