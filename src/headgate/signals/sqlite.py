"""Hints between processes that share a SQLite file, at the price of a look at the file's size.

Another process that commits changes the write-ahead log. That is seen without asking the database
anything; only when the file has changed is SQLite asked whether it was somebody else.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.signals.local import LocalSignal

LOOK_EVERY_S = 0.25


class SqliteSignal(LocalSignal):
    """Local hints, and a watch on the file for everyone else's."""

    def __init__(
        self, path: Path, foreign_commits: Callable[[], Awaitable[int]], clock: Clock
    ) -> None:
        """Watch the database at `path`; `foreign_commits` changes when another process commits."""
        super().__init__()
        self._watch = _Watch(path, foreign_commits, clock, self.nudge_all)

    async def start(self) -> None:
        """Begin to watch."""
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
        """Look; nudge if somebody else has committed."""
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
