"""The locks of workers around a SQLite file: a locked file for each, which its death unlocks.

The kernel frees the lock when the process ends, however it ends, and not before. So one look is
enough. A worker without a file, because somebody deleted the folder or copied the database to
another place, is not judged: its leases have to expire.
"""

import fcntl
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.signals.process_folder import JOIN_TRIES_MAX, LOCK, ProcessFolder

_log = get_logger(__name__)


class FileLocks:
    """The liveness of the workers around one SQLite file."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Keep the locks in `folder`."""
        self._folder = folder
        self._place: Path | None = None
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    async def hold(self, worker: str) -> None:
        """Make the file of this worker and lock it."""
        if self.held:
            return
        self._place = self._folder.place(worker, LOCK)
        try:
            self._descriptor = self._lock(self._place)
        except OSError as error:
            _log.warning(LogEvent.LIVENESS_UNKNOWN, error=describe_error(error))

    async def release(self) -> None:
        """Remove the file and unlock it."""
        if self._descriptor is not None and self._place is not None:
            with suppress(OSError):
                self._place.unlink()
            os.close(self._descriptor)
            self._descriptor = None
            self._folder.remove_if_empty()

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        """Those of these workers whose file is there and unlocked.

        An unlocked file of nobody is what is left of a worker that was dealt with; it is removed.
        """
        by_place = {self._folder.place(worker, LOCK): worker for worker in workers}
        unlocked = [place for place in self._folder.files(LOCK) if self._is_unlocked(place)]
        for place in unlocked:
            if place not in by_place:
                self._remove(place)
        return [by_place[place] for place in unlocked if place in by_place]

    def _lock(self, place: Path) -> int:
        """Lock a new file, and be sure that others find this very file."""
        for _ in range(JOIN_TRIES_MAX):
            self._folder.create()
            with suppress(FileNotFoundError, BlockingIOError):
                descriptor = _open(place, os.O_CREAT)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Before it was locked, another process may have removed it as nobody's.
                    if os.path.samestat(os.fstat(descriptor), place.lstat()):
                        return descriptor
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
        raise FileNotFoundError(f"{place} is removed again and again")

    def _is_unlocked(self, place: Path) -> bool:
        return self._while_unlocked(place, remove=False)

    def _remove(self, place: Path) -> None:
        self._while_unlocked(place, remove=True)

    def _while_unlocked(self, place: Path, *, remove: bool) -> bool:
        """Whether nobody has the lock; if so, remove the file, if wanted, before anybody has it."""
        with suppress(OSError):
            descriptor = _open(place)
            try:
                # Shared: two processes that look at the same moment do not mislead each other.
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if remove:
                    place.unlink()
                return True
            finally:
                os.close(descriptor)
        return False


def _open(place: Path, flags: int = 0) -> int:
    """Open a file of a lock; Python lets no child process inherit it."""
    return os.open(place, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
