"""What the vector index fails with, by what somebody has to do about it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.base.errors import HeadgateError, NotFound, Terminal, Transient

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: LanceDB names the number of the system's error only in its text.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_NO_TABLE = re.compile(r"Table '.*' was not found")
#: A place in LanceDB's own source, which helps nobody else.
_THEIR_SOURCE = re.compile(r",? /\S+\.rs:\d+:\d+")


@contextmanager
def translate_index_errors(folder: Path) -> Iterator[None]:
    """Turn what fails in the block into an error that says what to do."""
    try:
        yield
    except HeadgateError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise explain(folder, error) from error


def explain(folder: Path, error: Exception) -> HeadgateError:
    """Return the error that says what to do about a failure of the index in a folder."""
    text = str(error)
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _OS_ERROR.search(text)):
        number = int(found[1])
    if number in _FULL:
        return Transient(
            f"the vector index in {folder} cannot grow ({os.strerror(number)}): free some space; "
            "what it holds is unharmed, and the write can be repeated"
        )
    if number in _NOT_OURS:
        return Terminal(
            f"the vector index in {folder} cannot be written ({os.strerror(number)}): give this "
            "process the right to write there, or name another folder"
        )
    if _NO_TABLE.search(text):
        return NotFound(
            f"the collection is no longer in the vector index in {folder}: open it again"
        )
    return Transient(
        f"the vector index in {folder} failed: {_THEIR_SOURCE.sub('', text)}; where this stays, "
        "drop the collection and index it again"
    )
