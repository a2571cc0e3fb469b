"""Signals: hints that there may be work. A hint may be lost or arrive twice.

Every listener also checks for work at its own times, so a lost hint costs only time.
"""

from typing import NamedTuple, Protocol

from headgate.model.job import Lane

#: Somebody paused or cancelled a job: processes with claimed jobs should check them.
CONTROL = "control"

#: A provider has recovered: the sweeper has jobs to resume.
SWEEP = "sweep"

#: A message was enqueued, or a target goes on: there may be deliveries to send.
OUTBOX = "outbox"

#: A schedule was paused or resumed: its next tick may be another one.
SCHEDULES = "schedules"


def lane_topic(lane: Lane) -> str:
    """The topic that announces work for `lane`."""
    return f"lane.{lane.value}"


class SignalHint(NamedTuple):
    """A hint in the form in which a database server carries it to other processes."""

    channel: str
    payload: str


class Wakeable(Protocol):
    """A listener, such as a service, that a signal can wake."""

    def nudge(self) -> None:
        """Check for work now."""
        ...


class Signal(Protocol):
    """Carries hints between the parts of one process and between processes."""

    async def start(self) -> None:
        """Start listening."""
        ...

    async def stop(self) -> None:
        """Stop listening; safe if never started."""
        ...

    def subscribe(self, topic: str, listener: Wakeable) -> None:
        """Nudge `listener` whenever any process announces `topic`."""
        ...

    def hint(self, topic: str) -> SignalHint | None:
        """The hint for a store to send with its next commit; None: announce it afterwards.

        Who gets one sends it, and then announces the topic as `sent`.
        """
        ...

    async def announce(self, topic: str, *, sent: bool = False) -> None:
        """Nudge the listeners of `topic` in all processes. Never raises.

        `sent` says that a commit carried the hint: then only this process has to be told.
        """
        ...
