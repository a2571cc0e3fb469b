"""Freshness as a goal: nobody's data is older than a schedule allows, as far as the budget goes.

There are no ticks. The scheduler looks every now and then, takes the stalest users first, and
gives each a job shortly before their data is too old. Jobs are as far apart as the provider's
limits need, so where the budget is not enough for everybody, all get older together, and the report
says what it would take.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil

from headgate.model.candidate import (
    Candidate,
    Freshness,
    FreshPlan,
    PlannedStart,
    Skip,
)
from headgate.model.schedule import Schedule, SkipReason
from headgate.model.user import Frequency
from headgate.policy.allowance import DAY_S, Allowance
from headgate.policy.calendar import DAY
from headgate.policy.eligible import WEEK, skip_reason
from headgate.policy.entitlement import Entitlement

#: A job starts this share of the goal before the data is too old, but no more than an hour.
LEAD_SHARE = 1 / 10
LEAD_MAX = timedelta(hours=1)
#: After a job that failed, the next one waits for this share of the goal.
AGAIN_SHARE = 1 / 4
#: The scheduler looks this often in the time of a goal, but no more often than every minute.
LOOKS = 48
LOOK_MIN, LOOK_MAX = timedelta(minutes=1), timedelta(minutes=30)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_MONTH = 31 * DAY


def look_every(schedule: Schedule) -> timedelta:
    """How long the scheduler rests between two looks, which is how far ahead it queues jobs."""
    return min(LOOK_MAX, max(LOOK_MIN, _goal(schedule) / LOOKS))


def plan_fresh(
    schedule: Schedule,
    candidates: Sequence[Candidate],
    allowance: Allowance,
    *,
    now: datetime,
    left: int | None = None,
    entitlement: Entitlement | None = None,
) -> FreshPlan:
    """Plan the jobs that start before the next look; `left` requests may be sent at the moment."""
    skips: list[Skip] = []
    eligible: list[Candidate] = []
    for each in candidates:
        reason = skip_reason(schedule, each, now, now=now, entitlement=entitlement, asked=True)
        if reason is None or reason is SkipReason.JOB_ACTIVE:
            eligible.append(each)
        if reason is not None:
            skips.append(Skip(each, reason))
    horizon = now + look_every(schedule)
    waiting = sorted(
        ((due_at(schedule, each), each) for each in eligible if each.active_job_id is None),
        key=lambda pair: (pair[0], pair[1].connection_id),
    )
    due = [pair for pair in waiting if pair[0] < horizon]
    most = len(due) if left is None else min(len(due), left // schedule.requests)
    return FreshPlan(
        starts=_starts(schedule, due[:most], allowance, now, horizon),
        skips=tuple(skips),
        next_check_at=horizon,
        freshness=_report(schedule, eligible, allowance, now),
    )


def due_at(schedule: Schedule, candidate: Candidate) -> datetime:
    """When the next job of the candidate is to start."""
    goal = _goal_of(schedule, candidate)
    succeeded, ended = candidate.succeeded_at, candidate.ended_at
    due = _LONG_AGO if succeeded is None else succeeded + goal - _lead(goal)
    if ended is not None and (succeeded is None or ended > succeeded):
        return max(due, ended + goal * AGAIN_SHARE)
    return due


def _starts(
    schedule: Schedule,
    due: Sequence[tuple[datetime, Candidate]],
    allowance: Allowance,
    now: datetime,
    horizon: datetime,
) -> tuple[PlannedStart, ...]:
    """The stalest first, one after another; who has no place before `horizon` waits for it."""
    if not due:
        return ()
    least_s = allowance.steady_distance_s(schedule.requests)
    share_s = (horizon - now).total_seconds() / len(due)
    distance = timedelta(seconds=max(least_s, min(schedule.distance.total_seconds(), share_s)))
    starts: list[PlannedStart] = []
    at = now
    for since, candidate in due:
        at = max(at, since)
        if at >= horizon:
            break
        starts.append(PlannedStart(candidate, at))
        at += distance
    return tuple(starts)


def _report(
    schedule: Schedule, eligible: Sequence[Candidate], allowance: Allowance, now: datetime
) -> Freshness:
    goals = {each.connection_id: _goal_of(schedule, each) for each in eligible}
    stale = [each for each in eligible if _age(each, now) > goals[each.connection_id]]
    # Each job is as long after the last as the goal allows, less the time by which it is early.
    jobs_a_day = sum(DAY_S / (goal - _lead(goal)).total_seconds() for goal in goals.values())
    needed, allowed = ceil(jobs_a_day * schedule.requests), allowance.requests_a_day
    enough = allowed is None or needed <= allowed
    return Freshness(
        users=len(eligible),
        stale=tuple(sorted(stale, key=lambda each: each.succeeded_at or _LONG_AGO)),
        requests_needed_a_day=needed,
        requests_allowed_a_day=allowed,
        reachable=None if enough or not allowed else _goal(schedule) * (needed / allowed),
    )


def _age(candidate: Candidate, now: datetime) -> timedelta:
    return now - (candidate.succeeded_at or _LONG_AGO)


def _goal(schedule: Schedule) -> timedelta:
    goal = schedule.freshness
    assert goal is not None, f"{schedule.name} has ticks"
    return goal


def _goal_of(schedule: Schedule, candidate: Candidate) -> timedelta:
    """How old the data of this user may be: older than others' if they want it less often."""
    wanted = {Frequency.WEEKLY: WEEK, Frequency.MONTHLY: _MONTH}
    return max(_goal(schedule), wanted.get(candidate.preferences.frequency, _goal(schedule)))


def _lead(goal: timedelta) -> timedelta:
    return min(LEAD_MAX, goal * LEAD_SHARE)
