"""What a schedule knows of a user's connection when it decides who gets a job, and when."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from headgate.model.schedule import SkipReason
from headgate.model.states import ConnectionState
from headgate.model.user import Preferences


class Candidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A connection of a user that a schedule's sync could read."""

    user_id: str
    #: Where the source has no connections, the user's id.
    connection_id: str
    #: The connection at the destination, if that has users.
    destination_connection_id: str | None = None
    #: The states of the two connections; None where there is none.
    state: ConnectionState | None = None
    destination_state: ConnectionState | None = None
    #: How many connections the user has at the destination; None: it has no users.
    destinations: int | None = None
    plan: str | None = None
    #: When the user was seen last; None: never.
    last_login_at: datetime | None = None
    paused: bool = False
    preferences: Preferences = Preferences()
    #: The job of the sync that is active for the connection.
    active_job_id: str | None = None
    #: The last tick of the schedule at which the connection got a job.
    last_tick: datetime | None = None
    #: When a job of the sync last succeeded, and when one last ended, however it did.
    succeeded_at: datetime | None = None
    ended_at: datetime | None = None


class PlannedStart(msgspec.Struct, frozen=True, gc=False):
    """A user who gets a job, and when it starts."""

    candidate: Candidate
    at: datetime


class Skip(msgspec.Struct, frozen=True, gc=False):
    """A user who gets no job, and why."""

    candidate: Candidate
    reason: SkipReason


class TickPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets a job at a tick, when it starts, and who gets none."""

    tick: datetime
    #: In the order of their starts.
    starts: Sequence[PlannedStart]
    #: In the order of the candidates.
    skips: Sequence[Skip]
    #: The users who would get a job if the budget were large enough.
    active: int
    #: Whether there are too many users for the usual distance between two starts.
    dynamic: bool = False
    #: The requests that all active users take, and how many the provider allows in that time;
    #: None: any number.
    requests_needed: int = 0
    requests_allowed: int | None = None

    def skipped_by_reason(self) -> Mapping[SkipReason, int]:
        """How many users are skipped for each reason that there is."""
        counts: dict[SkipReason, int] = {}
        for skip in self.skips:
            counts[skip.reason] = counts.get(skip.reason, 0) + 1
        return counts


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """How far a goal is reached, and what it would take."""

    #: The users whose data is to be kept fresh.
    users: int
    #: Those whose data is older than the goal allows, the stalest first.
    stale: Sequence[Candidate]
    requests_needed_a_day: int
    #: None: any number.
    requests_allowed_a_day: int | None
    #: How old everybody's data gets with the requests that are allowed; None: they are enough.
    reachable: timedelta | None = None


class FreshPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that start before the scheduler looks again, and how far the goal is reached."""

    starts: Sequence[PlannedStart]
    skips: Sequence[Skip]
    next_check_at: datetime
    freshness: Freshness
