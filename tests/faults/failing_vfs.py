"""A layer below SQLite whose writes and syncs fail, fall short or tear, as a bad disk's do.

It is put around the operating system's own layer (`sqlite3_vfs`) of the very library that Python's
`sqlite3` uses, so everything above it is the real thing.
"""

import ctypes
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_P = ctypes.c_void_p
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, _P, ctypes.c_int, _P)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, ctypes.c_int, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("path_max", ctypes.c_int),
        ("next", _P),
        ("name", ctypes.c_char_p),
        ("data", _P),
        ("open", _OPEN),
        ("others", _P * 24),
    ]


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int),
        ("close", _P),
        ("read", _P),
        ("write", _WRITE),
        ("truncate", _P),
        ("sync", _SYNC),
        ("others", _P * 13),
    ]


class BadDisk:
    """What the disk does wrong at the moment; nothing, at first."""

    def __init__(self) -> None:
        #: The result code of every write and sync, if it is not to be done.
        self.write_result: int | None = None
        self.sync_result: int | None = None
        #: So many writes and syncs still succeed.
        self.healthy = 0
        #: The share of each failing write that reaches the disk.
        self.torn: float = 0.0
        self.failures = 0

    def heal(self) -> None:
        self.write_result = self.sync_result = None
        self.healthy, self.torn = 0, 0.0

    def fails(self) -> bool:
        """Whether the next write or sync fails, if such fail."""
        self.healthy -= 1
        self.failures += self.healthy < 0
        return self.healthy < 0


def _library() -> ctypes.CDLL:
    # Loaded by then, so its path is in the map of this process.
    sqlite3.connect(":memory:").close()
    found = re.search(r"\S*libsqlite3\S*", Path("/proc/self/maps").read_text(encoding="utf-8"))
    if found is None:
        pytest.skip("this Python has SQLite built in, where no layer can be put below it")
    return ctypes.CDLL(found.group())


#: Files stay open past a test, so what they call must stay too.
_kept: list[object] = []


@contextmanager
def bad_disk() -> Iterator[BadDisk]:
    """A disk below every database that is opened in the block."""
    library, disk = _library(), BadDisk()
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    real = library.sqlite3_vfs_find(None)
    layer = _Vfs.from_buffer_copy(real.contents)
    layer.name = b"bad-disk"
    methods: dict[int, _Methods] = {}

    def open_file(vfs: int, name: int, file: int, flags: int, out: int) -> int:
        result = real.contents.open(vfs, name, file, flags, out)
        slot = ctypes.cast(file, ctypes.POINTER(_P))
        if result == sqlite3.SQLITE_OK and slot[0]:
            own = methods.setdefault(slot[0], _failing(slot[0], disk))
            slot[0] = ctypes.addressof(own)
        return int(result)

    layer.open = _OPEN(open_file)
    _kept.extend((layer, methods, layer.open))
    library.sqlite3_vfs_register(ctypes.byref(layer), 1)
    try:
        yield disk
    finally:
        disk.heal()
        library.sqlite3_vfs_unregister(ctypes.byref(layer))
        library.sqlite3_vfs_register(real, 1)


def _failing(address: int, disk: BadDisk) -> _Methods:
    real = ctypes.cast(address, ctypes.POINTER(_Methods)).contents
    own = _Methods.from_buffer_copy(real)
    real_write: Callable[[int, int, int, int], int] = real.write
    real_sync: Callable[[int, int], int] = real.sync

    def write(file: int, data: int, size: int, offset: int) -> int:
        if disk.write_result is None or not disk.fails():
            return real_write(file, data, size, offset)
        if disk.torn:
            real_write(file, data, int(size * disk.torn), offset)
        return disk.write_result

    def sync(file: int, flags: int) -> int:
        if disk.sync_result is None or not disk.fails():
            return real_sync(file, flags)
        return disk.sync_result

    own.write, own.sync = _WRITE(write), _SYNC(sync)
    return own
