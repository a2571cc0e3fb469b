"""Schedules: when a sync runs by itself for every user who is connected and active.

A schedule has ticks, by a cron expression, or a goal: no user's data is older than `fresh_within`.
At a tick, each user gets one job, and the jobs start one after another; whoever gets none is listed
with the reason.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

import msgspec

from headgate.base.durations import format_duration, parse_duration
from headgate.base.encoding import JsonObject, json_problem
from headgate.base.errors import InvalidInput
from headgate.base.zones import find_zone
from headgate.model.job import Lane, Mode

NAME_LENGTH_MAX = 50
OPTIONS_BYTES_MAX = 64 * 1024
REQUESTS_MAX = 1_000_000
#: No expression needs to be longer.
CRON_LENGTH_MAX = 200
#: The shortest goal: looking for stale users more often than every few seconds would be polling.
FRESH_MIN = timedelta(minutes=5)
#: What other crons understand.
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: The modes of which a schedule knows all that they need.
MODES = (Mode.SINCE, Mode.FULL)

_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*", re.ASCII)
_EXAMPLE = "such as '0 2 * * *' for every day at two, or @daily"
#: Any day on which to begin looking for the first tick of an expression.
_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 - what a clock on the wall shows


class CatchUp(StrEnum):
    """What becomes of the ticks that were missed while no scheduler ran."""

    #: Only the last of them fires.
    LATEST = "latest"
    #: Every one of them fires, the oldest first; of very many, the last ones.
    ALL = "all"
    #: None of them fires.
    NONE = "none"


class TickKind(StrEnum):
    """Why jobs of a schedule were queued."""

    #: The time had come.
    CRON = "cron"
    #: Somebody asked for it.
    MANUAL = "manual"
    #: Users' data was about to be older than the goal allows.
    FRESH = "fresh"


class SkipReason(StrEnum):
    """Why a user gets no job at a tick."""

    #: The provider refuses the credentials, or those at the destination: the user must sign in.
    NEEDS_REAUTH = "needs_reauth"
    CONNECTION_PAUSED = "connection_paused"
    #: The user is not connected to the destination, or by several connections.
    NOT_CONNECTED = "not_connected"
    SEVERAL_CONNECTIONS = "several_connections"
    #: The user's syncs are paused.
    USER_PAUSED = "user_paused"
    #: The user has not been seen for longer than `active_within`.
    INACTIVE = "inactive"
    #: The user's plan does not include the job.
    PLAN = "plan"
    #: The user wants the job less often.
    NOT_DUE = "not_due"
    #: A job of the sync is active for the connection, such as an import that somebody started.
    JOB_ACTIVE = "job_active"
    #: The provider's budget, or the time until the next tick, is not enough for all users.
    NO_BUDGET = "no_budget"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a sync runs by itself: `Schedule(name="nightly", sync="steps", cron="0 2 * * *")`."""

    #: Lower case: "nightly-check-ins".
    name: str
    #: The name of the sync.
    sync: str
    #: Minute, hour, day of the month, month, day of the week, as clocks in `tz` show them; or an
    #: alias such as `@daily`.
    cron: str | None = None
    tz: str = "UTC"
    #: Instead of `cron`: no user's data is older than this, as far as the budget allows.
    fresh_within: str | timedelta | None = None
    mode: Mode | str = Mode.SINCE
    #: None: the lane of the sync.
    lane: Lane | str | None = None
    #: Passed to the source unchanged.
    options: JsonObject = {}
    #: The time between the starts of two users, as long as that leaves time for all of them.
    stagger: str | timedelta = "2m"
    #: All users start within this time; None: before the next tick.
    spread: str | timedelta | None = None
    #: The requests that a job takes, by which a plan is held against the provider's limits.
    requests: int = 1
    #: Only users who were seen within this time; None: everybody who is connected.
    active_within: str | timedelta | None = "30d"
    catch_up: CatchUp | str = CatchUp.LATEST
    #: Called when a tick begins, with its time and how many users are active, and when its jobs are
    #: stored, for the schedule's own logs or counts. A process that dies right then does not call.
    on_start: Callable[[datetime, int], None] | None = None
    on_end: Callable[["Tick"], None] | None = None

    def __post_init__(self) -> None:
        """Refuse a schedule that cannot work, naming the schedule and the field."""
        if not _NAME.fullmatch(self.name) or len(self.name) > NAME_LENGTH_MAX:
            raise InvalidInput(
                "schedule.name",
                f"{self.name!r} must be lower-case words such as nightly-check-ins, "
                f"of at most {NAME_LENGTH_MAX} characters",
            )
        if (self.cron is None) == (self.fresh_within is None):
            raise InvalidInput(
                f"{self.name}.cron", f"give either cron, {_EXAMPLE}, or fresh_within='24h'"
            )
        self._set("cron", _checked_cron(f"{self.name}.cron", self.cron))
        find_zone(f"{self.name}.tz", self.tz)
        for field in ("fresh_within", "stagger", "spread", "active_within"):
            given = getattr(self, field)
            self._set(field, None if given is None else parse_duration(self._field(field), given))
        self._set("mode", self._one_of("mode", MODES))
        if self.lane is not None:
            self._set("lane", self._one_of("lane", tuple(Lane)))
        self._set("catch_up", self._one_of("catch_up", tuple(CatchUp)))
        self._check_values()

    def _check_values(self) -> None:
        if self.freshness is not None and self.freshness < FRESH_MIN:
            raise InvalidInput(
                self._field("fresh_within"), f"must be at least {format_duration(FRESH_MIN)}"
            )
        for field in ("spread", "active_within"):
            if getattr(self, field) == timedelta(0):
                raise InvalidInput(self._field(field), "must be above 0; or leave it out")
        if self.freshness is not None and self.spread is not None:
            raise InvalidInput(self._field("spread"), "goes with cron, not with fresh_within")
        if not 1 <= self.requests <= REQUESTS_MAX:
            raise InvalidInput(self._field("requests"), f"must be between 1 and {REQUESTS_MAX:,}")
        problem = json_problem(self.options, bytes_max=OPTIONS_BYTES_MAX)
        if problem is not None:
            raise InvalidInput(self._field("options"), problem)

    def _field(self, name: str) -> str:
        return f"{self.name}.{name}"

    def _set(self, field: str, value: object) -> None:
        msgspec.structs.force_setattr(self, field, value)

    def _one_of(self, field: str, known: tuple[StrEnum, ...]) -> StrEnum:
        given = getattr(self, field)
        found = next((each for each in known if each == given), None)
        if found is None:
            names = ", ".join(each.value for each in known)
            raise InvalidInput(self._field(field), f"{str(given)!r} is not one of {names}")
        return found

    @property
    def zone(self) -> tzinfo:
        """The time zone of the cron expression."""
        return find_zone(self._field("tz"), self.tz)

    @property
    def job_mode(self) -> Mode:
        """The mode of its jobs."""
        return Mode(self.mode)

    @property
    def freshness(self) -> timedelta | None:
        """The goal: how old a user's data may be; None if the schedule has ticks."""
        return _span(self.fresh_within)

    @property
    def distance(self) -> timedelta:
        """The time between the starts of two users."""
        return _span(self.stagger) or timedelta(0)

    @property
    def window(self) -> timedelta | None:
        """The time within which all users start; None: before the next tick."""
        return _span(self.spread)

    @property
    def seen_within(self) -> timedelta | None:
        """How long ago a user may have been seen last; None: any time."""
        return _span(self.active_within)

    @property
    def definition(self) -> str:
        """What determines the ticks: ticks that were computed by another definition are void."""
        if self.freshness is not None:
            return f"fresh within {format_duration(self.freshness)}"
        return f"cron {self.cron} in {self.tz}"

    @property
    def description(self) -> str:
        """When the sync runs, in words."""
        if self.freshness is not None:
            return f"Nobody's data is older than {format_duration(self.freshness)}"
        from cronsim import CronSim

        assert self.cron is not None
        return CronSim(self.cron, _SOME_DAY).explain()


def _span(given: str | timedelta | None) -> timedelta | None:
    # A schedule that was made has durations in place of texts.
    assert not isinstance(given, str)
    return given


def _checked_cron(field: str, given: str | None) -> str | None:
    """The expression, with single spaces and without an alias; InvalidInput if it has no tick."""
    if given is None:
        return None
    # Imported where it is used: not every application has a schedule.
    from cronsim import CronSim, CronSimError

    cron = ALIASES.get(given.strip().lower(), " ".join(given.split()))
    if cron.startswith("@"):
        known = ", ".join(ALIASES)
        raise InvalidInput(field, f"{given!r} is not known; write an expression, or one of {known}")
    if len(cron.split()) != 5 or len(cron) > CRON_LENGTH_MAX:
        raise InvalidInput(field, f"{given!r} must have five fields, {_EXAMPLE}")
    try:
        next(CronSim(cron, _SOME_DAY))
    except CronSimError as error:
        raise InvalidInput(
            field, f"{given!r} cannot be read: {error}; write one {_EXAMPLE}"
        ) from None
    except StopIteration:
        raise InvalidInput(field, f"{given!r} is never true; write one {_EXAMPLE}") from None
    return cron


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a schedule. Fields are named as the columns."""

    name: str
    #: By which definition `next_tick_at` was computed.
    definition: str
    #: The last tick that has fired; None if none has.
    last_tick: datetime | None = None
    #: When it fires next, or, with a goal, when the scheduler looks next.
    next_tick_at: datetime
    #: Since when it is paused, by whom and why.
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    updated_at: datetime


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that has fired. Fields are named as the columns."""

    schedule: str
    tick: datetime
    kind: TickKind
    fired_at: datetime
    #: The users that got a job, and those that got none.
    queued: int
    skipped: int
    #: The ticks before this one that nobody fired, because no scheduler ran.
    missed: int = 0
    #: The process that fired it.
    worker: str
    #: Who asked for it; None: nobody did.
    asked_by: str | None = None


class TickUser(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick meant for one connection of a user: a job, or a reason why not."""

    user_id: str
    connection_id: str
    #: The job; if the user was skipped because of an active job, that job.
    job_id: str | None = None
    #: None: the user got a job.
    reason: SkipReason | None = None
