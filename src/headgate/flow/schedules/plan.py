"""The plans of a schedule: who gets a job, and when. Nothing is written."""

from collections.abc import Sequence
from datetime import datetime

from headgate.flow.registry import auth_of, lane_of
from headgate.flow.runtime import Runtime
from headgate.model.candidate import Candidate, FreshPlan, TickPlan
from headgate.model.job import Lane
from headgate.model.schedule import Schedule, ScheduleState
from headgate.policy.allowance import Allowance, allowance_of, shared_limits
from headgate.policy.cron import next_tick
from headgate.policy.freshness import plan_fresh
from headgate.policy.ticks import Period, plan_tick
from headgate.ports.schedules import CandidateQuery, ScheduleStore

#: The candidates that are read in one statement.
PAGE = 2000


def store_of(rt: Runtime) -> ScheduleStore:
    """The store of schedules, of an application that has some."""
    assert rt.schedules is not None, "this runtime has no schedules"
    return rt.schedules


def first_tick(schedule: Schedule, state: ScheduleState | None, now: datetime) -> datetime:
    """When the schedule fires, or looks, if it begins now; later than the last tick in any case."""
    if schedule.cron is None:
        return now
    last = None if state is None else state.last_tick
    after = now if last is None else max(now, last)
    return next_tick(schedule.cron, schedule.zone, after)


def asked_period(schedule: Schedule, now: datetime) -> Period:
    """The period of a tick that somebody asks for: until the next one, or for a goal's time."""
    if schedule.cron is not None:
        ends = next_tick(schedule.cron, schedule.zone, now)
    else:
        assert schedule.freshness is not None
        ends = now + schedule.freshness
    return Period(tick=now, now=now, ends=ends, asked=True)


async def read_candidates(rt: Runtime, schedule: Schedule) -> tuple[datetime, list[Candidate]]:
    """The store's time, and all candidates of the schedule in the order of their connections."""
    query = _query(rt, schedule)
    found: list[Candidate] = []
    while True:
        after = found[-1].connection_id if found else None
        now, page = await store_of(rt).candidates(query, after=after, limit=PAGE)
        found += page
        if len(page) < PAGE:
            return now, found


def _query(rt: Runtime, schedule: Schedule) -> CandidateQuery:
    sync = rt.registry.get(schedule.sync)
    there = sync.destination
    return CandidateQuery(
        schedule=schedule.name,
        sync=sync.name,
        source=sync.source.name if auth_of(sync.source) is not None else None,
        destination=there.name if there is not None and auth_of(there) is not None else None,
        ages=schedule.freshness is not None,
    )


def plan(
    rt: Runtime, schedule: Schedule, period: Period, candidates: Sequence[Candidate]
) -> TickPlan:
    """The plan of a tick for these candidates."""
    return plan_tick(
        schedule, period, candidates, _allowance(rt, schedule), entitlement=rt.entitlement
    )


async def plan_freshness_check(
    rt: Runtime, schedule: Schedule, candidates: Sequence[Candidate], now: datetime
) -> FreshPlan:
    """The plan of a check of how fresh the data of these candidates is."""
    return plan_fresh(
        schedule,
        candidates,
        _allowance(rt, schedule),
        now=now,
        left=await _requests_left(rt, schedule),
        entitlement=rt.entitlement,
    )


def _allowance(rt: Runtime, schedule: Schedule) -> Allowance:
    sync = rt.registry.get(schedule.sync)
    return allowance_of(rt.registry.budgets.get(sync.source.name), lane_of(sync, schedule))


async def _requests_left(rt: Runtime, schedule: Schedule) -> int | None:
    """What is left of the source's budget at the moment; None if that is unknown or unlimited."""
    sync = rt.registry.get(schedule.sync)
    budget = rt.registry.budgets.get(sync.source.name)
    use = None if budget is None else await rt.gates.use(budget, connection_id=None)
    if budget is None or use is None:
        return None
    cold = lane_of(sync, schedule) is Lane.COLD
    counted = {limit.name for limit in shared_limits(budget)}
    left = [
        window.remaining - (window.reserved if cold else 0)
        for window in use.windows
        if window.limit in counted
    ]
    return max(0, min(left)) if left else None
