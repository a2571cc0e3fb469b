"""Lets one writer at a time change a collection, across the processes of a machine.

LanceDB commits atomically, but two commits that add the same new document both succeed, and the
document is then there twice. The lock is the system's, on an open file: it goes with its process,
however that ends.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")


class LockTaken(Exception):
    """Somebody else has the lock."""


def with_lock(path: Path, work: Callable[[], _Result]) -> _Result:
    """Do the work under the lock; LockTaken at once, where another has it.

    All in one call, for a thread: whatever becomes of those who wait for it, the lock is held until
    the work has ended.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockTaken from None
        return work()
    finally:
        os.close(descriptor)
