"""Who gets a job at a tick: connected, active users, as often as each of them wants."""

from datetime import date, datetime

from headgate.model.candidate import Candidate
from headgate.model.schedule import Schedule, SkipReason
from headgate.model.states import ConnectionState
from headgate.model.user import Frequency
from headgate.policy.calendar import DAY
from headgate.policy.entitlement import Entitlement

WEEK = 7 * DAY


def skip_reason(
    schedule: Schedule,
    candidate: Candidate,
    tick: datetime,
    *,
    now: datetime,
    entitlement: Entitlement | None = None,
    asked: bool = False,
) -> SkipReason | None:
    """Why the candidate gets no job at the tick; None if it gets one.

    If somebody `asked` for the tick, a user gets a job however often they want one.
    """
    reason = _connection_reason(candidate)
    if reason is not None:
        return reason
    if candidate.paused:
        return SkipReason.USER_PAUSED
    if not is_active(schedule, candidate, now):
        return SkipReason.INACTIVE
    if entitlement is not None and entitlement(candidate.plan, schedule.job_mode) is not None:
        return SkipReason.PLAN
    if not asked and not is_due(schedule, candidate, tick):
        return SkipReason.NOT_DUE
    return None if candidate.active_job_id is None else SkipReason.JOB_ACTIVE


def is_active(schedule: Schedule, candidate: Candidate, now: datetime) -> bool:
    """Whether the user was seen as lately as the schedule wants."""
    within, seen = schedule.seen_within, candidate.last_login_at
    return within is None or (seen is not None and now - seen <= within)


def is_due(schedule: Schedule, candidate: Candidate, tick: datetime) -> bool:
    """Whether the last job of a tick is as long ago as the user wants, in days of the schedule.

    A user who wants it daily gets it at every tick.
    """
    frequency = candidate.preferences.frequency
    if frequency is Frequency.DAILY or candidate.last_tick is None:
        return True
    zone = schedule.zone
    day, last = tick.astimezone(zone).date(), candidate.last_tick.astimezone(zone).date()
    if frequency is Frequency.WEEKLY:
        return day - last >= WEEK
    return day >= _month_after(last)


def _month_after(day: date) -> date:
    """The same day of the next month, or its last day if it is shorter."""
    first = (day.replace(day=1) + 32 * DAY).replace(day=1)
    last = (first + 32 * DAY).replace(day=1) - DAY
    return first.replace(day=min(day.day, last.day))


def _connection_reason(candidate: Candidate) -> SkipReason | None:
    if candidate.destinations == 0:
        return SkipReason.NOT_CONNECTED
    if candidate.destinations is not None and candidate.destinations > 1:
        return SkipReason.SEVERAL_CONNECTIONS
    states = (candidate.state, candidate.destination_state)
    if ConnectionState.NEEDS_REAUTH in states:
        return SkipReason.NEEDS_REAUTH
    return SkipReason.CONNECTION_PAUSED if ConnectionState.PAUSED in states else None
