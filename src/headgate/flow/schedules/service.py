"""The schedules of an application: looking at them, planning, running and pausing them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time

import msgspec

from headgate.base.errors import Conflict, InvalidInput, NotFound
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.zones import instant_of
from headgate.flow.jobs.submit import check_name
from headgate.flow.registry import lane_of
from headgate.flow.runtime import Runtime
from headgate.flow.schedules.fire import declare, run_now
from headgate.flow.schedules.plan import (
    asked_period,
    first_tick,
    plan,
    plan_freshness_check,
    read_candidates,
    store_of,
)
from headgate.flow.schedules.view import (
    PlanView,
    ScheduleHistory,
    ScheduleView,
    TickUserView,
    freshness_plan_view,
    history_days,
    schedule_view,
    tick_plan_view,
    tick_user_view,
)
from headgate.model.schedule import Schedule, ScheduleState, SkipReason, Tick
from headgate.model.states import JOB, JobState
from headgate.policy.calendar import DAY
from headgate.policy.cron import next_tick, next_ticks
from headgate.policy.ticks import Period
from headgate.ports.schedules import TickCounts, TickOutcome
from headgate.ports.signal import SCHEDULES

LIST_MAX = 1000
#: The most users of a plan that are shown.
PLAN_MAX = 100_000
RUNS_MAX = 100
REASON_LENGTH_MAX = 500
HISTORY_DAYS, HISTORY_DAYS_MAX = 7, 90
#: A user with so many failures in the time of a history is named.
FAILURES_MIN = 3

_log = get_logger(__name__)


class ScheduleStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule did in the last 24 hours, and whether it goes on."""

    name: str
    #: None until a worker has stored it.
    state: ScheduleState | None
    counts: TickCounts
    #: The jobs of these ticks that have ended, by state.
    ended: Mapping[JobState, int]
    #: Users with at least `FAILURES_MIN` failures in `HISTORY_DAYS`.
    failing_users: int


class Schedules:
    """The schedules of an application."""

    def __init__(self, rt: Runtime, *, worker: str) -> None:
        """Use the runtime of the application; ticks are fired as `worker`."""
        self._rt = rt
        self._store = store_of(rt)
        self._worker = worker

    @property
    def names(self) -> Sequence[str]:
        """The names of the declared schedules."""
        return tuple(self._rt.registry.schedules)

    async def list(self, *, runs: int = 1) -> Sequence[ScheduleView]:
        """All declared schedules, each with its next `runs`."""
        schedules = self._rt.registry.schedules
        now, states = await self._store.states(list(schedules))
        known = {state.name: state for state in states}
        return [self._view(each, known.get(name), now, runs) for name, each in schedules.items()]

    async def get(self, name: str, *, runs: int = 5) -> ScheduleView:
        """The schedule, with its next `runs`."""
        schedule = self._find(name)
        now, states = await self._store.states([name])
        return self._view(schedule, states[0] if states else None, now, runs)

    async def next_runs(self, name: str, count: int = 5) -> Sequence[datetime]:
        """The next ticks; a schedule with a goal has none."""
        return (await self.get(name, runs=count)).next_runs

    async def plan(self, name: str, *, now: bool = False, limit: int = PLAN_MAX) -> PlanView:
        """Who would get a job at the next tick, or if it were run `now`; nothing is started."""
        _check_limit(limit, PLAN_MAX)
        schedule = self._find(name)
        at, candidates = await read_candidates(self._rt, schedule)
        users = len(candidates)
        if schedule.cron is None and not now:
            look = await plan_freshness_check(self._rt, schedule, candidates, at)
            return freshness_plan_view(schedule, look, now=at, users=users, limit=limit)
        period = asked_period(schedule, at)
        if not now:
            _, states = await self._store.states([name])
            period = _next_period(schedule, states[0] if states else None, at)
        planned = plan(self._rt, schedule, period, candidates)
        return tick_plan_view(schedule, planned, users=users, limit=limit)

    async def run_now(self, name: str, *, by: str) -> Tick:
        """Give a job to every active user now; the schedule's own ticks stay as they are.

        It also works while the schedule is paused. `by` says who wants it.
        """
        schedule = self._find(name)
        check_name("by", by)
        fired = await run_now(self._rt, schedule, by=by, worker=self._worker)
        return fired.tick

    async def pause(self, name: str, *, by: str, reason: str | None = None) -> ScheduleView:
        """Stop the schedule from firing until it is resumed; nothing changes if it is paused.

        Jobs that it has queued before run as planned. `by` says who pauses it.
        """
        schedule = self._find(name)
        check_name("by", by)
        if reason is not None:
            _check_reason(reason)
        await declare(self._rt, [schedule], only_new=True)
        _, changed = await self._store.pause(name, by=by, reason=reason)
        if changed:
            _log.info(LogEvent.SCHEDULE_PAUSED, schedule=name, by=by, reason=reason)
            await self._rt.signal.announce(SCHEDULES)
        return await self.get(name)

    async def resume(self, name: str, *, by: str) -> ScheduleView:
        """Let the schedule fire again; what it would have fired meanwhile does not fire."""
        schedule = self._find(name)
        check_name("by", by)
        await declare(self._rt, [schedule], only_new=True)
        now, [state] = await self._store.states([name])
        if state.definition != schedule.definition:
            raise Conflict(
                f"{name} runs by another definition, {state.definition}: resume it with the "
                "settings of its workers"
            )
        first = first_tick(schedule, state, now)
        _, changed = await self._store.resume(name, next_tick_at=first)
        if changed:
            _log.info(LogEvent.SCHEDULE_RESUMED, schedule=name, by=by)
            await self._rt.signal.announce(SCHEDULES)
        return await self.get(name)

    # ---- what has fired ------------------------------------------------------------------------

    async def ticks(
        self, name: str, *, limit: int = 50, before: datetime | None = None
    ) -> Sequence[Tick]:
        """Ticks that have fired, the latest first; for the next page, pass the last as `before`."""
        self._find(name)
        _check_limit(limit, LIST_MAX)
        return await self._store.ticks(name, limit=limit, before=before)

    async def tick_users(
        self,
        name: str,
        tick: datetime,
        *,
        reasons: Sequence[SkipReason] = (),
        limit: int = 50,
        after: str | None = None,
    ) -> Sequence[TickUserView]:
        """What a tick meant for each connection, by id; with `reasons`, only those skipped so."""
        self._find(name)
        _check_limit(limit, LIST_MAX)
        await self._store.get_tick(name, tick)
        found = await self._store.tick_users(name, tick, reasons=reasons, limit=limit, after=after)
        return [tick_user_view(each) for each in found]

    async def history(self, name: str, *, days: int = HISTORY_DAYS) -> ScheduleHistory:
        """The last days of the schedule's zone, today first, and the users who keep failing."""
        schedule = self._find(name)
        if not 1 <= days <= HISTORY_DAYS_MAX:
            raise InvalidInput("days", f"must be between 1 and {HISTORY_DAYS_MAX}")
        now, _ = await self._store.states([name])
        today = now.astimezone(schedule.zone).date()
        shown = [today - number * DAY for number in range(days)]
        since = instant_of(datetime.combine(shown[-1], time()), schedule.zone)
        ticks = await self._store.ticks_since(name, since)
        outcomes = await self._store.outcomes_since([name], since)
        failing = await self._store.failing_users([name], since, least=FAILURES_MIN, limit=LIST_MAX)
        return ScheduleHistory(
            schedule=name,
            tz=schedule.tz,
            days=history_days(schedule, shown, ticks, outcomes[name]),
            failures_min=FAILURES_MIN,
            failing_users=failing[name],
        )

    async def stats(self) -> "Sequence[ScheduleStats]":
        """What each schedule did in the last day, and how many users keep failing."""
        names = self.names
        now, states = await self._store.states(names)
        known = {state.name: state for state in states}
        counted = await self._store.counts_since(now - DAY)
        outcomes = await self._store.outcomes_since(names, now - DAY)
        week = now - HISTORY_DAYS * DAY
        failing = await self._store.failing_users(names, week, least=FAILURES_MIN, limit=LIST_MAX)
        return [
            ScheduleStats(
                name=name,
                state=known.get(name),
                counts=counted.get(name, TickCounts()),
                ended=_ended(outcomes[name]),
                failing_users=len(failing[name]),
            )
            for name in names
        ]

    def _find(self, name: str) -> Schedule:
        schedules = self._rt.registry.schedules
        if name not in schedules:
            known = ", ".join(schedules) or "none"
            raise NotFound(f"there is no schedule {name!r}; there are: {known}")
        return schedules[name]

    def _view(
        self, schedule: Schedule, state: ScheduleState | None, now: datetime, runs: int
    ) -> ScheduleView:
        _check_limit(runs, RUNS_MAX, field="runs")
        following: list[datetime] = []
        if schedule.cron is not None:
            first = _next_period(schedule, state, now).tick
            following = [first, *next_ticks(schedule.cron, schedule.zone, first, runs - 1)]
        lane = lane_of(self._rt.registry.get(schedule.sync), schedule)
        return schedule_view(schedule, state, lane, following)


def _ended(outcomes: Sequence[TickOutcome]) -> dict[JobState, int]:
    """How many jobs have succeeded, failed and been cancelled, zero included."""
    counts = {state: 0 for state in JobState if state in JOB.terminal}
    for each in outcomes:
        if each.state in counts:
            counts[each.state] += each.count
    return counts


def _next_period(schedule: Schedule, state: ScheduleState | None, now: datetime) -> Period:
    """The period of the next tick, as if it fired on time."""
    assert schedule.cron is not None
    if state is None or state.paused_at is not None:
        tick = first_tick(schedule, state, now)
    else:
        tick = state.next_tick_at
    fires = max(now, tick)
    return Period(tick=tick, now=fires, ends=next_tick(schedule.cron, schedule.zone, fires))


def _check_limit(limit: int, most: int, *, field: str = "limit") -> None:
    if not 1 <= limit <= most:
        raise InvalidInput(field, f"must be between 1 and {most:,}")


def _check_reason(reason: str) -> None:
    if not 1 <= len(reason) <= REASON_LENGTH_MAX or not reason.isprintable():
        raise InvalidInput("reason", f"must be 1 to {REASON_LENGTH_MAX} printable characters")
