"""The store of the events of jobs."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from headgate.model.job import JobEvent
from headgate.model.states import JobState


class LastEvent(msgspec.Struct, frozen=True, gc=False):
    """How far a job is: the id of its last event, 0 if it has none, and its state."""

    id: int
    state: JobState


class EventStore(Protocol):
    """The events of jobs."""

    async def list_events(self, job_id: str, *, after: int, limit: int) -> Sequence[JobEvent]:
        """A job's events in order, after the id `after`."""
        ...

    async def last_events(self, job_ids: Sequence[str]) -> Mapping[str, LastEvent]:
        """How far each of these jobs is, by its id; a job that is not stored is left out."""
        ...

    async def prune_events(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old events, at most `limit` of the oldest; returns how many."""
        ...
