"""Reads secrets from files that only their owner can read."""

import os
import stat
from pathlib import Path

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret

FILE_BYTES_MAX = 64 * 1024


def read_private_file(field: str, path: Path, *, hint: str = "") -> Secret:
    """Return the content of a file; raises InvalidInput if others can read it.

    `hint` is added to the message if the file cannot be read at all.
    """
    try:
        with path.open("rb") as file:
            # Of the open file: the path may be another one by now.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidInput(
                    field, f"{path} can be read by others ({mode:04o}): chmod 600 {path}"
                )
            return Secret(file.read(FILE_BYTES_MAX).decode("ascii"))
    except OSError as error:
        raise InvalidInput(field, f"{path} cannot be read: {error.strerror}{hint}") from None
    except UnicodeDecodeError:
        raise InvalidInput(field, f"{path} is not plain text{hint}") from None


def read_api_key(field: str, path: Path) -> Secret:
    """Return the only line of a file, an API key; raises InvalidInput if there is no such line."""
    key = read_private_file(field, path).reveal().strip()
    if not key or len(key.split()) > 1:
        raise InvalidInput(field, f"{path} must hold one API key and nothing else")
    return Secret(key)
