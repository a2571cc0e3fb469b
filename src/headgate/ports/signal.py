"""Signals: hints that there may be work. A hint may be lost or arrive twice.

Every listener also checks for work at its own times, so a lost hint costs only time.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from headgate.model.job import Job, Lane
from headgate.model.states import JobState
from headgate.ports.workers import Liveness

#: Somebody paused or cancelled a job: processes with claimed jobs should check them.
CONTROL = "control"

#: A provider has recovered: the rescuer has jobs to resume.
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

    #: What listeners listen to.
    name: str
    payload: str


class JobHint(msgspec.Struct, frozen=True, gc=False):
    """A job that a worker can run, now or at a later time."""

    id: str
    #: How many chunks it has; a message about an earlier one is old.
    step: int
    user_id: str
    due_at: datetime | None = None


def job_hints(jobs: Iterable[Job]) -> list[JobHint]:
    """Those of the jobs that wait for a worker."""
    return [
        JobHint(job.id, job.steps, job.user_id, job.wake_at)
        for job in jobs
        if job.state is JobState.PENDING
    ]


class Wakeable(Protocol):
    """A listener, such as a service, that a signal can wake."""

    def nudge(self) -> None:
        """Check for work now."""
        ...


class Signal(Protocol):
    """Carries hints between the parts of one process and between processes."""

    @property
    def liveness(self) -> Liveness:
        """What tells which of the processes that it reaches have died."""
        ...

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

    async def announce(
        self, topic: str, due: Sequence[JobHint] = (), *, sent: bool = False
    ) -> None:
        """Nudge the listeners of `topic` in all processes. Never raises.

        `due` are the jobs that can run, if it is known which: a queue has a message for each.
        `sent` says that a commit carried the hint: then only this process has to be told.
        """
        ...
