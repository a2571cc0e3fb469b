"""Hints that there may be work: never the truth, always allowed to be lost or doubled.

Who waits for a signal also knows when to look anyway; a lost one costs time, nothing else.
"""

from typing import Protocol

from headgate.model.job import Lane

#: Somebody paused or cancelled a job: whoever holds jobs should look at them.
CONTROL = "control"

#: A provider has recovered: the sweeper has jobs to let go.
SWEEP = "sweep"


def lane_topic(lane: Lane) -> str:
    """The topic on which work for `lane` is announced."""
    return f"lane.{lane.value}"


class Wakeable(Protocol):
    """Something that can be nudged: a service."""

    def nudge(self) -> None:
        """Look now."""
        ...


class Signal(Protocol):
    """Carries hints between the parts of one process and between processes."""

    async def start(self) -> None:
        """Begin to listen."""
        ...

    async def stop(self) -> None:
        """Stop listening; safe if never started."""
        ...

    def subscribe(self, topic: str, listener: Wakeable) -> None:
        """Nudge `listener` whenever `topic` is announced, here or elsewhere."""
        ...

    async def announce(self, topic: str) -> None:
        """Tell everyone, here and elsewhere, that there may be news. Never raises."""
        ...
