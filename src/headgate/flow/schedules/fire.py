"""Firing: what is due of a schedule becomes jobs, each user's once.

The users are read and the plan is made before the transaction that stores the jobs, so it is short
however many users there are. What changed in between, it finds by itself: another scheduler that
was first, a pause, a job that somebody started.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from headgate.base.encoding import hash_text
from headgate.base.errors import Conflict
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.jobs.submit import JobRequest, check
from headgate.flow.registry import lane_of
from headgate.flow.runtime import Runtime
from headgate.flow.schedules.plan import (
    asked_period,
    first_tick,
    plan,
    plan_freshness_check,
    read_candidates,
    store_of,
)
from headgate.model.candidate import Candidate, PlannedStart, Skip, TickPlan
from headgate.model.schedule import Schedule, ScheduleState, TickKind, TickUser
from headgate.policy.catch_up import DueTick, due_tick
from headgate.policy.cron import next_tick
from headgate.policy.ticks import Period
from headgate.ports.schedules import DeclaredSchedule, FiredTick, NewTick, ScheduledJob
from headgate.ports.signal import lane_topic

#: The jobs that are made before other tasks of the process get a turn.
BATCH = 200

_log = get_logger(__name__)


# ---- declaring ---------------------------------------------------------------------------------


async def declare(rt: Runtime, schedules: Sequence[Schedule], *, only_new: bool = False) -> None:
    """Store the schedules that are new, or that were defined otherwise, with their next ticks.

    With `only_new`, one that is stored stays as it is: only a worker brings another definition.
    """
    store = store_of(rt)
    now, states = await store.states([each.name for each in schedules])
    known = {state.name: state for state in states}
    declared = [
        DeclaredSchedule(each.name, each.definition, first_tick(each, known.get(each.name), now))
        for each in schedules
        if each.name not in known
        or (not only_new and known[each.name].definition != each.definition)
    ]
    if declared:
        await store.declare(declared)


# ---- firing ------------------------------------------------------------------------------------


async def fire_due(
    rt: Runtime, schedule: Schedule, state: ScheduleState, now: datetime, *, worker: str
) -> None:
    """Fire what is due of the schedule, as its row was read at `now`."""
    if schedule.cron is None:
        await _look(rt, schedule, state, worker=worker)
        return
    due = due_tick(schedule, state.next_tick_at, now)
    if due.tick is not None:
        moved = await _fire(rt, schedule, state, due, due.tick, worker=worker) is not None
    else:
        moved = await _advance(rt, schedule, state, due.next_tick_at)
    if moved and due.missed:
        _log.warning(
            LogEvent.TICKS_MISSED,
            schedule=schedule.name,
            count=due.missed,
            catch_up=str(schedule.catch_up),
            fired=None if due.tick is None else due.tick.isoformat(),
        )


async def _advance(
    rt: Runtime, schedule: Schedule, state: ScheduleState, next_tick_at: datetime
) -> bool:
    return await store_of(rt).advance(
        schedule.name,
        schedule.definition,
        planned=state.next_tick_at,
        next_tick_at=next_tick_at,
    )


async def _fire(
    rt: Runtime,
    schedule: Schedule,
    state: ScheduleState,
    due: DueTick,
    tick: datetime,
    *,
    worker: str,
) -> FiredTick | None:
    now, candidates = await read_candidates(rt, schedule)
    assert schedule.cron is not None
    ends = max(due.next_tick_at, next_tick(schedule.cron, schedule.zone, max(now, tick)))
    planned = plan(rt, schedule, Period(tick=tick, now=now, ends=ends), candidates)
    new = NewTick(
        schedule=schedule.name,
        definition=schedule.definition,
        tick=tick,
        kind=TickKind.CRON,
        worker=worker,
        missed=due.missed,
        planned=state.next_tick_at,
        next_tick_at=due.next_tick_at,
        jobs=await _jobs(rt, schedule, planned.starts, tick),
        skips=_skipped(planned.skips),
    )
    return await _store_tick(rt, schedule, new, planned, users=len(candidates))


async def _look(rt: Runtime, schedule: Schedule, state: ScheduleState, *, worker: str) -> None:
    """Give jobs to those whose data is about to be too old."""
    now, candidates = await read_candidates(rt, schedule)
    look = await plan_freshness_check(rt, schedule, candidates, now)
    if not look.starts:
        await _advance(rt, schedule, state, look.next_check_at)
        return
    new = NewTick(
        schedule=schedule.name,
        definition=schedule.definition,
        tick=now,
        kind=TickKind.FRESH,
        worker=worker,
        planned=state.next_tick_at,
        next_tick_at=look.next_check_at,
        jobs=await _jobs(rt, schedule, look.starts, now),
        # Who is skipped at every look is told by the plan, not in the history.
        skips=(),
    )
    goal = look.freshness
    planned = TickPlan(
        tick=now,
        starts=look.starts,
        skips=(),
        active=goal.users,
        requests_needed=goal.requests_needed_a_day,
        requests_allowed=goal.requests_allowed_a_day,
    )
    await _store_tick(rt, schedule, new, planned, users=len(candidates))


async def run_now(rt: Runtime, schedule: Schedule, *, by: str, worker: str) -> FiredTick:
    """Fire a tick that somebody asks for; the schedule's own ticks stay as they are."""
    now, candidates = await read_candidates(rt, schedule)
    planned = plan(rt, schedule, asked_period(schedule, now), candidates)
    new = NewTick(
        schedule=schedule.name,
        definition=schedule.definition,
        tick=now,
        kind=TickKind.MANUAL,
        worker=worker,
        asked_by=by,
        planned=None,
        next_tick_at=None,
        jobs=await _jobs(rt, schedule, planned.starts, now),
        skips=_skipped(planned.skips),
    )
    fired = await _store_tick(rt, schedule, new, planned, users=len(candidates))
    if fired is None:
        raise Conflict(f"schedule {schedule.name!r} was run at the same moment; try again")
    return fired


async def _store_tick(
    rt: Runtime, schedule: Schedule, new: NewTick, planned: TickPlan, *, users: int
) -> FiredTick | None:
    """Store the tick, wake the workers, and log both; None if the tick is no longer to fire."""
    tick, kind = new.tick.isoformat(), new.kind.value
    _log.info(
        LogEvent.TICK_STARTED,
        schedule=schedule.name,
        tick=tick,
        kind=kind,
        users=users,
        active_users=planned.active,
    )
    if schedule.on_start is not None:
        schedule.on_start(new.tick, planned.active)
    fired = await store_of(rt).fire(new)
    if fired is None:
        _log.info(LogEvent.TICK_TAKEN, schedule=schedule.name, tick=tick, kind=kind)
        return None
    if fired.tick.queued:
        await rt.signal.announce(lane_topic(lane_of(rt.registry.get(schedule.sync), schedule)))
    _log.info(
        LogEvent.TICK_COMPLETED,
        schedule=schedule.name,
        tick=tick,
        kind=kind,
        active_users=planned.active,
        users_queued=fired.tick.queued,
        skipped=_reasons(planned, fired),
        last_start=planned.starts[-1].at.isoformat() if planned.starts else None,
    )
    if schedule.on_end is not None:
        schedule.on_end(fired.tick)
    _warn_of_budget(schedule, planned)
    return fired


def _warn_of_budget(schedule: Schedule, planned: TickPlan) -> None:
    allowed = planned.requests_allowed
    if allowed is not None and planned.requests_needed > allowed:
        _log.warning(
            LogEvent.BUDGET_TOO_SMALL,
            schedule=schedule.name,
            tick=planned.tick.isoformat(),
            requests_needed=planned.requests_needed,
            requests_allowed=allowed,
        )


def _reasons(planned: TickPlan, fired: FiredTick) -> Mapping[str, int]:
    counts = {reason.value: count for reason, count in planned.skipped_by_reason().items()}
    for each in fired.overtaken:
        assert each.reason is not None
        counts[each.reason.value] = counts.get(each.reason.value, 0) + 1
    return counts


# ---- jobs --------------------------------------------------------------------------------------


async def _jobs(
    rt: Runtime, schedule: Schedule, starts: Sequence[PlannedStart], tick: datetime
) -> list[ScheduledJob]:
    """The jobs of those who start; their keys are the same whichever scheduler makes them."""
    sync, now = rt.registry.get(schedule.sync), rt.clock.now()
    made: list[ScheduledJob] = []
    for place, start in enumerate(starts):
        if place % BATCH == BATCH - 1:
            await rt.clock.sleep(0)
        request = _request(schedule, start.candidate, tick)
        new = check(request, sync, job_id=rt.ids.new("job"), now=now)
        made.append(ScheduledJob(new, start.at))
    return made


def _request(schedule: Schedule, candidate: Candidate, tick: datetime) -> JobRequest:
    return JobRequest(
        sync=schedule.sync,
        user_id=candidate.user_id,
        connection_id=candidate.connection_id,
        destination_connection_id=candidate.destination_connection_id,
        mode=schedule.mode,
        lane=schedule.lane,
        options=schedule.options,
        key=f"{schedule.name} {tick.isoformat()} {hash_text(candidate.connection_id)}",
    )


def _skipped(skips: Sequence[Skip]) -> list[TickUser]:
    return [
        TickUser(
            user_id=skip.candidate.user_id,
            connection_id=skip.candidate.connection_id,
            job_id=skip.candidate.active_job_id,
            reason=skip.reason,
        )
        for skip in skips
    ]
