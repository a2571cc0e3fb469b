"""A worker process: what it can run, and how long it counts as alive."""

from datetime import datetime

import msgspec

from headgate.model.job import Job, Lane


class Abilities(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker process can run."""

    lanes: tuple[Lane, ...] = ()
    syncs: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, as it has told of itself."""

    #: A name that no other process has.
    id: str
    abilities: Abilities
    started_at: datetime
    #: It counts as gone then, unless it tells of itself again.
    expires_at: datetime

    def can_run(self, job: Job) -> bool:
        """Whether it claims such jobs."""
        return job.sync in self.abilities.syncs and job.lane in self.abilities.lanes
