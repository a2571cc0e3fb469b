"""Signals between processes that share a SQLite file.

A process that announces something sends a hint to the sockets of the others. Besides, everybody
watches the file's size and time: for writers that announce nothing, for hints that were lost, and
where there can be no sockets. A commit of another process changes the write-ahead log, which needs
no query to notice. Only when the file has changed, SQLite is asked whether another process
committed.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from headgate.base.clock import Clock
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.base.service import Service
from headgate.ports.signal import JobHint
from headgate.signals.file_locks import FileLocks
from headgate.signals.hint_socket import HintSocket
from headgate.signals.local import LocalSignal
from headgate.signals.process_folder import ProcessFolder
from headgate.signals.throttle import HintThrottle

LOOK_EVERY_S = 0.25

_log = get_logger(__name__)


class SqliteSignal(LocalSignal):
    """Signals within this process, to others by their sockets, and from others."""

    def __init__(
        self,
        path: Path,
        foreign_commits: Callable[[], Awaitable[int]],
        clock: Clock,
        *,
        origin: str,
    ) -> None:
        """Reach the processes around the database at `path`, as the one called `origin`.

        `foreign_commits` changes when another process commits.
        """
        folder = ProcessFolder(path)
        super().__init__(FileLocks(folder))
        self._socket = HintSocket(folder, origin, self.nudge)
        self._sender = _Sender(self._socket, clock)
        self._watch = _Watch(path, foreign_commits, clock, self.nudge_all)

    async def start(self) -> None:
        """Make the socket, if possible, and watch the file."""
        try:
            self._socket.open()
        except (OSError, NotImplementedError) as error:
            # Hints from others take longer, and nothing else changes.
            _log.debug(LogEvent.NO_SOCKET, error=describe_error(error))
        await self._sender.start()
        await self._watch.start()

    async def stop(self) -> None:
        """Send the waiting hints and stop watching."""
        await self._sender.stop()
        self._sender.flush()
        self._socket.close()
        await self._watch.stop()

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        """Nudge the listeners of this process now, and those of all others soon."""
        self.nudge(topic)
        self._sender.send(topic)


class _Sender(Service):
    """Sends a few hints at once, and gathers those that follow closely."""

    name = "sqlite-hints"

    def __init__(self, socket: HintSocket, clock: Clock) -> None:
        super().__init__(clock)
        self._socket = socket
        self._throttle = HintThrottle()
        self._waiting: set[str] = set()

    def send(self, topic: str) -> None:
        """Add a topic to the next send."""
        self._waiting.add(topic)
        self.nudge()

    def flush(self) -> None:
        """Send what waits."""
        topics, self._waiting = sorted(self._waiting), set()
        self._throttle.count(self._clock.monotonic())
        self._socket.send(topics)

    async def run_once(self) -> float | None:
        """Send what waits."""
        if self._waiting:
            wait_s = self._throttle.wait_s(self._clock.monotonic())
            if wait_s > 0:
                # What comes meanwhile goes with it.
                await self._clock.sleep(wait_s)
            self.flush()
        return None


class _Watch(Service):
    name = "sqlite-watch"

    def __init__(
        self,
        path: Path,
        foreign_commits: Callable[[], Awaitable[int]],
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(clock)
        self._wal = path.with_name(path.name + "-wal")
        self._foreign_commits = foreign_commits
        self._on_change = on_change
        self._seen_file: tuple[int, int] | None = None
        self._seen_commits: int | None = None

    async def run_once(self) -> float:
        """Check the file, and nudge everybody if another process has committed."""
        found_file = self._stat_wal()
        if found_file != self._seen_file:
            self._seen_file = found_file
            commits = await self._foreign_commits()
            if self._seen_commits is not None and commits != self._seen_commits:
                self._on_change()
            self._seen_commits = commits
        return LOOK_EVERY_S

    def _stat_wal(self) -> tuple[int, int] | None:
        try:
            found = self._wal.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size
