"""Signals within one process: a dictionary of listeners."""

from collections import defaultdict
from collections.abc import Sequence

from headgate.ports.signal import JobHint, SignalHint, Wakeable


class LocalSignal:
    """Nudges the listeners of this process."""

    def __init__(self) -> None:
        """Start with no listeners."""
        self._listeners: dict[str, list[Wakeable]] = defaultdict(list)

    async def start(self) -> None:
        """Do nothing: there is nothing to start."""

    async def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    def subscribe(self, topic: str, listener: Wakeable) -> None:
        """Nudge `listener` whenever `topic` is announced."""
        self._listeners[topic].append(listener)

    def hint(self, topic: str) -> SignalHint | None:
        """None: no other process listens over a server."""
        return None

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        """Nudge all listeners of `topic`."""
        self.nudge(topic)

    def nudge(self, topic: str) -> None:
        """Nudge this process's listeners of `topic`."""
        for listener in self._listeners[topic]:
            listener.nudge()

    def nudge_all(self) -> None:
        """Nudge all listeners, because hints may have been lost."""
        for topic in list(self._listeners):
            self.nudge(topic)
