"""The folder of the processes around a SQLite file: a socket for each, and a lock for each worker.

The folder lies next to the file and belongs to the user of the process alone, so nobody else can
send hints or free locks. Whatever keeps it from being used, such as another owner or a folder that
cannot be written to, is an `OSError`; then the processes do without it.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SOCKET, LOCK = ".socket", ".lock"
#: Tries to make a file in the folder, which a process that leaves may remove at the same moment.
JOIN_TRIES_MAX = 5
_NAME_LENGTH = 16


class ProcessFolder:
    """The folder next to one database file."""

    def __init__(self, database: Path) -> None:
        """Use the folder of the database file, whatever link it was named by."""
        self.path = Path(f"{os.path.realpath(database)}-processes")

    def create(self) -> None:
        """Create the folder, unless it is there; OSError if it is not private to this user."""
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        self._check()

    def _check(self) -> None:
        found = self.path.lstat()
        private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
        if not private or found.st_uid != os.geteuid():
            raise PermissionError(f"{self.path} is not a folder of this user alone")

    def place(self, process: str, kind: str) -> Path:
        """The file of a process: its socket or its lock."""
        # Short, because the address of a socket is, and safe, whatever the host is called.
        digest = hashlib.sha256(process.encode()).hexdigest()
        return self.path / f"{digest[:_NAME_LENGTH]}{kind}"

    def files(self, kind: str) -> Iterator[Path]:
        """The sockets, or the locks, that are there now; none if the folder cannot be used.

        What is left of the dead is removed, so files in a place that a link leads to, or that
        somebody else has made, are not taken for ours.
        """
        with suppress(OSError):
            self._check()
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.name.endswith(kind):
                        yield self.path / entry.name

    def remove_if_empty(self) -> None:
        """Remove the folder, if this was the last process in it."""
        with suppress(OSError):
            self.path.rmdir()
