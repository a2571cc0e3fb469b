"""The store of schedules, of their ticks, and of what each tick meant for each user.

Every method is one atomic, durable operation, and the store's clock judges the time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from headgate.model.candidate import Candidate
from headgate.model.schedule import ScheduleState, SkipReason, Tick, TickKind, TickUser
from headgate.model.states import JobState
from headgate.ports.jobs.submission import NewJob


class CandidateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose connections a schedule looks at."""

    schedule: str
    sync: str
    #: The source whose connections are candidates; None: it has none, and every user is one.
    source: str | None
    #: The destination at which each user needs a connection; None: none is needed.
    destination: str | None = None
    #: Whether to read when the last jobs ended.
    ages: bool = False


class DeclaredSchedule(msgspec.Struct, frozen=True):
    """A schedule as an application declares it, and when it ticks first."""

    name: str
    definition: str
    next_tick_at: datetime


class ScheduledJob(msgspec.Struct, frozen=True, gc=False):
    """A job of a tick, and when it starts."""

    new: NewJob
    starts_at: datetime


class NewTick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick to fire."""

    schedule: str
    definition: str
    tick: datetime
    kind: TickKind
    worker: str
    asked_by: str | None = None
    missed: int = 0
    #: When the schedule was to fire, as it was read; None: somebody asked, and nothing is moved.
    planned: datetime | None
    next_tick_at: datetime | None
    jobs: Sequence[ScheduledJob]
    skips: Sequence[TickUser]


class FiredTick(msgspec.Struct, frozen=True):
    """A tick that has fired, and those who got no job because another was quicker to start one."""

    tick: Tick
    overtaken: Sequence[TickUser] = ()


class TickOutcome(msgspec.Struct, frozen=True, gc=False):
    """How many jobs of a tick are in a state."""

    tick: datetime
    state: JobState
    count: int


class UserFailures(msgspec.Struct, frozen=True, gc=False):
    """How many jobs of a user have failed."""

    user_id: str
    failures: int


class TickCounts(msgspec.Struct, frozen=True):
    """What the ticks of some time added up to."""

    ticks: int = 0
    queued: int = 0
    skipped: int = 0
    missed: int = 0


class ScheduleStore(Protocol):
    """Schedules and their ticks."""

    async def states(self, names: Sequence[str]) -> tuple[datetime, Sequence[ScheduleState]]:
        """The store's time, and the schedules of these names that are stored, in their order."""
        ...

    async def declare(self, declared: Sequence[DeclaredSchedule]) -> None:
        """Store schedules that are new, and the next ticks of those that are defined otherwise."""
        ...

    async def candidates(
        self, query: CandidateQuery, *, after: str | None, limit: int
    ) -> tuple[datetime, Sequence[Candidate]]:
        """The store's time, and candidates by connection id, after the id `after`."""
        ...

    async def fire(self, new: NewTick) -> FiredTick | None:
        """Store the tick with its jobs and skips, and move the schedule on, all or nothing.

        None: another scheduler was first, or the schedule was paused or defined anew, or the tick
        has fired before. No job is made then.
        """
        ...

    async def advance(
        self, name: str, definition: str, *, planned: datetime, next_tick_at: datetime
    ) -> bool:
        """Move the schedule on without a tick; False if another was first."""
        ...

    async def pause(self, name: str, *, by: str, reason: str | None) -> tuple[ScheduleState, bool]:
        """Pause the schedule; returns it, and whether this changed anything."""
        ...

    async def resume(self, name: str, *, next_tick_at: datetime) -> tuple[ScheduleState, bool]:
        """Resume the schedule; returns it, and whether this changed anything."""
        ...

    async def ticks(
        self, name: str, *, limit: int, before: datetime | None = None
    ) -> Sequence[Tick]:
        """Ticks that have fired, the latest first, before the tick `before`."""
        ...

    async def get_tick(self, name: str, tick: datetime) -> Tick:
        """The tick; NotFound if it has not fired, or long ago."""
        ...

    async def tick_users(
        self,
        name: str,
        tick: datetime,
        *,
        reasons: Sequence[SkipReason] = (),
        limit: int,
        after: str | None = None,
    ) -> Sequence[TickUser]:
        """What the tick meant for each connection, by its id; with `reasons`, only those skips."""
        ...

    async def skip_counts(self, name: str, tick: datetime) -> Mapping[SkipReason, int]:
        """How many users were skipped at the tick, by reason."""
        ...

    async def counts_since(self, since: datetime) -> Mapping[str, TickCounts]:
        """What the ticks since then added up to, by schedule."""
        ...

    async def ticks_since(self, name: str, since: datetime) -> Sequence[Tick]:
        """All ticks since then, in order."""
        ...

    async def outcomes_since(
        self, names: Sequence[str], since: datetime
    ) -> Mapping[str, Sequence[TickOutcome]]:
        """The states of the jobs of each tick since then, by schedule."""
        ...

    async def failing_users(
        self, names: Sequence[str], since: datetime, *, least: int, limit: int
    ) -> Mapping[str, Sequence[UserFailures]]:
        """Users of whom at least `least` jobs of ticks since then failed, the most first.

        They are by schedule, at most `limit` of each.
        """
        ...

    async def prune_ticks(self, *, older_than: timedelta, limit: int) -> int:
        """Delete old ticks with their users, at most `limit` rows; returns how many."""
        ...
