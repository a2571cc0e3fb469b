"""The name of this process, which no other process has.

Others know it by this name: its claims and its lock have it, and it ignores hints that were sent
under it. So a process that was forked from it must not go on under the same name.
"""

import os
import socket

from headgate.base.errors import InvalidInput
from headgate.base.ids import Ids


class ProcessName:
    """The name that was made in one process, for that process alone."""

    def __init__(self, ids: Ids) -> None:
        """Make the name: the machine, the number of the process, and a fresh id."""
        self._pid = os.getpid()
        self.name = ids.new(f"{socket.gethostname()}-{self._pid}")

    def check(self) -> None:
        """Raise InvalidInput in a process that was forked from the one that has the name."""
        if os.getpid() != self._pid:
            raise InvalidInput(
                "app",
                f"it was made in the process {self._pid}, from which this one was forked, and "
                "the two would take each other's hints and locks for their own: make the App "
                "after the fork, such as without gunicorn's --preload",
            )
