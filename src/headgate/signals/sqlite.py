"""Signals between processes that share a SQLite file, by watching the file's size and time.

A commit of another process changes the write-ahead log, which needs no query to notice. Only when
the file has changed, SQLite is asked whether another process committed.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.signals.local import LocalSignal

LOOK_EVERY_S = 0.25


class SqliteSignal(LocalSignal):
    """Signals within this process, and from other processes by watching the file."""

    def __init__(
        self, path: Path, foreign_commits: Callable[[], Awaitable[int]], clock: Clock
    ) -> None:
        """Watch the database at `path`; `foreign_commits` changes when another process commits."""
        super().__init__()
        self._watch = _Watch(path, foreign_commits, clock, self.nudge_all)

    async def start(self) -> None:
        """Start watching."""
        await self._watch.start()

    async def stop(self) -> None:
        """Stop watching."""
        await self._watch.stop()


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
