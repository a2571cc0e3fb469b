"""What people read about schedules: when one runs next, and why a user got no job."""

from datetime import timedelta

from headgate.base.durations import format_duration
from headgate.base.times import format_time
from headgate.model.schedule import Schedule, ScheduleState, SkipReason

#: What to do, or what happens next, for each reason.
_SKIPS = {
    SkipReason.NEEDS_REAUTH: "the provider refuses the credentials: the user has to sign in again",
    SkipReason.CONNECTION_PAUSED: "the connection is paused: resume it",
    SkipReason.NOT_CONNECTED: "the user is not connected to the destination",
    SkipReason.SEVERAL_CONNECTIONS: (
        "the user has several connections to the destination: start the job by hand and name one"
    ),
    SkipReason.USER_PAUSED: "the user is paused: resume the user",
    SkipReason.INACTIVE: "the user has not been seen for longer than the schedule allows",
    SkipReason.PLAN: "the user's plan does not include it",
    SkipReason.NOT_DUE: "the user wants it less often",
    SkipReason.JOB_ACTIVE: "a job of the sync is active for the connection: it goes on",
    SkipReason.NO_BUDGET: (
        "the provider's limits are not enough for all users: the user goes first at the next tick"
    ),
}


def explain_skip(reason: SkipReason) -> str:
    """Why a user got no job, and what to do or what happens next."""
    return _SKIPS[reason]


def explain_schedule(schedule: Schedule, state: ScheduleState | None) -> str:
    """What happens next with the schedule."""
    if state is None:
        return "It begins when a worker starts."
    if state.paused_at is not None:
        why = "" if state.pause_reason is None else f": {state.pause_reason}"
        return (
            f"It has been paused by {state.paused_by} since {format_time(state.paused_at)}{why}. "
            "Nothing runs until it is resumed."
        )
    if state.definition != schedule.definition:
        return f"A worker runs it by another definition ({state.definition}) until it is restarted."
    if schedule.freshness is not None:
        return f"It looks for data that gets too old at {format_time(state.next_tick_at)}."
    return f"It runs next at {format_time(state.next_tick_at)}."


def explain_freshness(goal: timedelta, users: int, stale: int, reachable: timedelta | None) -> str:
    """How far a goal is reached."""
    span = format_duration(goal)
    if reachable is not None:
        return (
            f"The provider's limits are not enough to keep the data of {users:,} users within "
            f"{span}; they are enough for {_rounded(reachable)}."
        )
    if stale:
        return f"The data of {stale:,} of {users:,} users is older than {span}."
    return f"The data of all {users:,} users is within {span}."


def _rounded(span: timedelta) -> str:
    """The duration, up to the next minute, or the next hour if it is longer than a day."""
    unit = timedelta(hours=1) if span > timedelta(days=1) else timedelta(minutes=1)
    return format_duration(-(-span // unit) * unit)
