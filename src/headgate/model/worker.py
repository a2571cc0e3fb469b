"""Worker processes: what each can run, and until when it counts as alive."""

from datetime import datetime

import msgspec

from headgate.model.job import Job, Lane


class Abilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker process can run, and how others can tell that it lives."""

    lanes: tuple[Lane, ...] = ()
    syncs: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    #: Whether it holds a lock that is free when its process has died.
    holds_lock: bool = False


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, as its row describes it."""

    #: A name that no other process has.
    id: str
    abilities: Abilities
    started_at: datetime
    #: The worker counts as gone from then on, unless it refreshes its row.
    expires_at: datetime

    def can_run(self, job: Job) -> bool:
        """Whether this worker claims jobs of that sync and lane."""
        return job.sync in self.abilities.syncs and job.lane in self.abilities.lanes
