"""The folder of the demonstration: what it needs to go on where it was stopped or killed."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from headgate import Conflict, InvalidInput

_BEGUN, _LOCK, _DATABASE = "demo.json", "demo.lock", "demo.db"
_JOURNAL = "demo-{}.jsonl"


class DemoState(msgspec.Struct, frozen=True):
    """A demonstration that was begun and has not come to its end."""

    at: datetime
    days: int
    #: The encryption key of the users' credentials, at sandboxes on this machine.
    key: str


class DemoFolder:
    """The files of one demonstration; only these are ever touched."""

    def __init__(self, path: Path) -> None:
        """Use `path`, which exists."""
        self.path = path

    @property
    def database(self) -> Path:
        """The application's database."""
        return self.path / _DATABASE

    def journal(self, name: str) -> Path:
        """What the provider of that name remembers."""
        return self.path / _JOURNAL.format(name)

    def begun(self, days: int) -> DemoState | None:
        """The demonstration of so many days that can go on, if there is one."""
        try:
            found = msgspec.json.decode((self.path / _BEGUN).read_bytes(), type=DemoState)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.days == days else None

    def begin(self, begun: DemoState) -> DemoState:
        """Forget what was here, and begin."""
        self.end()
        self.clear()
        # Only its owner can read the key from the moment the file exists.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self.path / _BEGUN, flags, 0o600), "wb") as file:
            file.write(msgspec.json.encode(begun))
        return begun

    def end(self) -> None:
        """Let the next demonstration begin from nothing."""
        (self.path / _BEGUN).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete what is of no use to a demonstration that does not go on."""
        if (self.path / _BEGUN).exists():
            return
        for pattern in (f"{_DATABASE}*", _JOURNAL.format("*")):
            for each in self.path.glob(pattern):
                each.unlink()


@contextmanager
def open_folder(path: Path) -> Iterator[DemoFolder]:
    """Open the folder for this process alone; another demonstration in it is a Conflict."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / _LOCK).open("w")
    except OSError as error:
        raise InvalidInput("folder", f"{path} cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                f"a demonstration runs already in {path}; for another one beside it, name another "
                "folder: --folder"
            ) from None
        folder = DemoFolder(path)
        try:
            yield folder
        finally:
            folder.clear()
