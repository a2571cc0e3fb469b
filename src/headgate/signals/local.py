"""Signals within one process: a dictionary of listeners."""

from collections.abc import Collection, Sequence

from headgate.ports.signal import JobHint, SignalHint, Wakeable
from headgate.ports.workers import Liveness


class NoLiveness:
    """Knows of no process that it has died, so that all keep their claims until leases expire."""

    held = False

    async def hold(self, worker: str) -> None:
        """Hold nothing."""

    async def release(self) -> None:
        """Free nothing."""

    async def find_dead(self, workers: Sequence[str]) -> Collection[str]:
        """Nobody."""
        return ()


class LocalSignal:
    """Nudges the listeners of this process."""

    def __init__(self, liveness: Liveness | None = None) -> None:
        """Start with no listeners; without `liveness`, nobody is known to have died."""
        self.liveness: Liveness = liveness or NoLiveness()
        self._listeners: dict[str, list[Wakeable]] = {}

    async def start(self) -> None:
        """Do nothing: there is nothing to start."""

    async def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    def subscribe(self, topic: str, listener: Wakeable) -> None:
        self._listeners.setdefault(topic, []).append(listener)

    def hint(self, topic: str) -> SignalHint | None:
        """None: no other process listens over a server."""
        return None

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        self.nudge(topic)

    def nudge(self, topic: str) -> None:
        """Nudge this process's listeners of `topic`; an unknown topic has none."""
        for listener in self._listeners.get(topic, ()):
            listener.nudge()

    def nudge_all(self) -> None:
        """Nudge all listeners, because hints may have been lost."""
        for topic in list(self._listeners):
            self.nudge(topic)
