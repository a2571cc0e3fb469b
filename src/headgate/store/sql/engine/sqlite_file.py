"""The file of a SQLite database: made private, watched, and asked what is wrong with its disk.

A file that was deleted or replaced under a running process still takes writes, which nobody will
ever read: SQLite goes on with the open file. So the name must lead to the file that was opened,
and to its write-ahead log, before a write is acknowledged.
"""

import errno
import os
from pathlib import Path

from headgate.base.errors import FaultKind, StoreFault, StoreUnavailable

#: With less space than this, not even a small write is sure to fit.
FREE_BYTES_MIN = 64 * 1024

_BY_ERRNO = {
    errno.ENOSPC: FaultKind.DISK_FULL,
    errno.EDQUOT: FaultKind.DISK_FULL,
    errno.EROFS: FaultKind.DISK_READ_ONLY,
    errno.EACCES: FaultKind.DISK_READ_ONLY,
    errno.EIO: FaultKind.DISK_BROKEN,
}

#: The device and the number of a file: no two files have the same at one time.
_Identity = tuple[int, int]


class SqliteFile:
    """The database's file and its write-ahead log."""

    def __init__(self, path: Path) -> None:
        """Watch the file at `path`."""
        self.path = path
        self._wal = Path(f"{path}-wal")
        self._identity: _Identity | None = None
        self._wal_identity: _Identity | None = None

    def create(self) -> None:
        """Create the file for its owner alone; SQLite gives its -wal and -shm files the same mode.

        A file that is there already is only opened; from now on it must stay the same.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            kind = _BY_ERRNO.get(error.errno or 0)
            message = f"the database cannot be opened: {error}"
            raise (StoreFault(kind, message) if kind else StoreUnavailable(message)) from error
        self._identity, self._wal_identity = _identify(self.path), None

    def check(self) -> None:
        """Raise StoreFault if the name no longer leads to the file that was opened."""
        if _identify(self.path) != self._identity:
            raise StoreFault(FaultKind.DATABASE_REPLACED, _message(self.path))
        if self._wal_identity is None:
            # It appears with the first write, and stays while the file is open.
            self._wal_identity = _identify(self._wal)
        elif _identify(self._wal) != self._wal_identity:
            raise StoreFault(FaultKind.DATABASE_REPLACED, _message(self._wal))

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the file or its disk right now, as far as one can see."""
        try:
            self.check()
            disk = os.statvfs(self.path)
        except StoreFault as replaced:
            return replaced
        except OSError:
            # Whoever reads or writes next finds out.
            return None
        if disk.f_flag & os.ST_RDONLY or not os.access(self.path, os.W_OK):
            return StoreFault(FaultKind.DISK_READ_ONLY, f"{self.path} cannot be written to")
        if disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN:
            return StoreFault(FaultKind.DISK_FULL, f"there is no space left for {self.path}")
        return None


def _identify(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _message(path: Path) -> str:
    return (
        f"{path} was deleted or replaced while it was in use, so nothing more is accepted; "
        "put the file back, or restart to use the one that is there now"
    )
