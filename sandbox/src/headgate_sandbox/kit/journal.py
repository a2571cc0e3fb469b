"""This module lets a sandbox that is served again go on with what it had, even after a kill.

A line is written before each answer is sent, so a client never knows more than the journal.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from headgate_sandbox.kit.request_log import Seen
from headgate_sandbox.kit.tokens import TokenState
from headgate_sandbox.kit.windows import Count


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answered request, and what the provider knows since."""

    seen: Seen
    counts: Sequence[Count] = ()
    #: Requests beyond a limit, by key.
    overshoot: dict[str, int] = {}
    #: None: none was made or ended since the line before.
    tokens: TokenState | None = None
    #: What this provider alone has, such as uploads; each is added to those before.
    added: Sequence[msgspec.Raw] = ()


class Journal:
    """The lines of one sandbox, in a file that only grows."""

    def __init__(self, file: Path) -> None:
        """Append to `file`, which is made with the first line."""
        self._file = file
        #: How much of it was written already.
        self.token_changes = 0
        self.added = 0

    def write(self, line: Line) -> None:
        """Append a line."""
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")

    def read(self) -> Iterator[Line]:
        """All lines; a last one that was cut off by a kill is removed: its answer was not sent."""
        if not self._file.exists():
            return
        written = self._file.read_bytes()
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            os.truncate(self._file, whole)
        for line in written[:whole].splitlines():
            yield msgspec.json.decode(line, type=Line)
