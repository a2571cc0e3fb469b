"""The representation of a schedule, of its plan and of its history, for the API and `--json`."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.flow.schedules.explain import explain_freshness, explain_schedule, explain_skip
from headgate.model.candidate import FreshPlan, PlannedStart, Skip, TickPlan
from headgate.model.job import Lane, Mode
from headgate.model.schedule import (
    CatchUp,
    Schedule,
    ScheduleState,
    SkipReason,
    Tick,
    TickUser,
)
from headgate.model.states import JobState
from headgate.ports.schedules import TickOutcome, UserFailures


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a schedule is paused, by whom, and why."""

    since: datetime
    by: str
    reason: str | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: how it is defined, and what happens next."""

    name: str
    sync: str
    message: Annotated[str, Meta(description="What happens next.")]
    description: Annotated[str, Meta(description="When the sync runs, in words.")]
    cron: Annotated[str | None, Meta(description="null if the schedule has a goal instead.")]
    tz: Annotated[str, Meta(description="The time zone of `cron`.")]
    fresh_within_s: Annotated[float | None, Meta(description="The goal, in seconds; else null.")]
    mode: Mode
    lane: Lane
    stagger_s: Annotated[float, Meta(description="Seconds between the starts of two users.")]
    spread_s: Annotated[float | None, Meta(description="Seconds in which all users start.")]
    requests: Annotated[int, Meta(description="The requests that a job is planned with.")]
    active_within_s: Annotated[
        float | None, Meta(description="Users who were not seen for longer are skipped.")
    ]
    catch_up: CatchUp
    paused: PauseView | None
    last_tick: Annotated[datetime | None, Meta(description="The last tick that fired.")]
    next_tick_at: Annotated[
        datetime | None, Meta(description="When it fires or looks next; null while it is paused.")
    ]
    next_runs: Annotated[
        Sequence[datetime], Meta(description="The next ticks, if it is not paused before.")
    ]


class StartView(msgspec.Struct, frozen=True, kw_only=True):
    """A user who gets a job, and when it starts."""

    user_id: str
    connection_id: str
    starts_at: datetime


class SkipView(msgspec.Struct, frozen=True, kw_only=True):
    """A user who gets no job, and why."""

    user_id: str
    connection_id: str
    reason: SkipReason
    message: Annotated[str, Meta(description="Why, and what to do or what happens next.")]
    job_id: Annotated[str | None, Meta(description="The job that is active, if that is why.")]


class StaleUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user whose data is older than the goal allows."""

    user_id: str
    connection_id: str
    succeeded_at: Annotated[datetime | None, Meta(description="The last success; null: never.")]


class FreshnessView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a goal is reached, and what it would take."""

    message: str
    users: int
    stale_count: int
    stale: Annotated[Sequence[StaleUser], Meta(description="The stalest first, up to `limit`.")]
    requests_needed_a_day: int
    requests_allowed_a_day: Annotated[int | None, Meta(description="null: any number.")]
    reachable_s: Annotated[
        float | None,
        Meta(description="The goal for which the limits are enough; null: this one is reachable."),
    ]


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """Who would get a job at a tick and when; nothing is started."""

    schedule: str
    tick: datetime
    users: Annotated[int, Meta(description="All who are connected.")]
    active_users: Annotated[int, Meta(description="Those who would get a job.")]
    queued: int
    skipped: Annotated[Mapping[str, int], Meta(description="The number of users by reason.")]
    dynamic: Annotated[
        bool, Meta(description="Too many users for `stagger_s`: they are spread evenly.")
    ]
    requests_needed: int
    requests_allowed: Annotated[int | None, Meta(description="null: any number.")]
    starts: Annotated[Sequence[StartView], Meta(description="In order, up to `limit`.")]
    skips: Annotated[Sequence[SkipView], Meta(description="Up to `limit`.")]
    freshness: Annotated[FreshnessView | None, Meta(description="null if it has ticks.")]


class TickUserView(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick meant for a connection of a user."""

    user_id: str
    connection_id: str
    job_id: str | None
    reason: Annotated[SkipReason | None, Meta(description="null: the user got a job.")]
    message: Annotated[str | None, Meta(description="Why not, and what to do.")]


class DayHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What the ticks of one day added up to."""

    day: date
    ticks: int = 0
    queued: int = 0
    skipped: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    active: Annotated[int, Meta(description="Jobs that have not ended yet.")] = 0


class ScheduleHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The last days of a schedule, and the users whose jobs keep failing."""

    schedule: str
    tz: Annotated[str, Meta(description="The time zone of the days.")]
    days: Annotated[Sequence[DayHistory], Meta(description="The latest first.")]
    failures_min: int
    failing_users: Annotated[
        Sequence[UserFailures], Meta(description="Users with at least `failures_min` failures.")
    ]


# ---- making them -------------------------------------------------------------------------------


def schedule_view(
    schedule: Schedule, state: ScheduleState | None, lane: Lane, next_runs: Sequence[datetime]
) -> ScheduleView:
    """The view of a schedule; `state` is None until a worker has stored it."""
    paused_at = None if state is None else state.paused_at
    return ScheduleView(
        name=schedule.name,
        sync=schedule.sync,
        message=explain_schedule(schedule, state),
        description=schedule.description,
        cron=schedule.cron,
        tz=schedule.tz,
        fresh_within_s=_seconds(schedule.freshness),
        mode=schedule.job_mode,
        lane=lane,
        stagger_s=schedule.distance.total_seconds(),
        spread_s=_seconds(schedule.window),
        requests=schedule.requests,
        active_within_s=_seconds(schedule.seen_within),
        catch_up=CatchUp(schedule.catch_up),
        paused=None if state is None else _pause(state),
        last_tick=None if state is None else state.last_tick,
        next_tick_at=None if state is None or paused_at is not None else state.next_tick_at,
        next_runs=next_runs,
    )


def _pause(state: ScheduleState) -> PauseView | None:
    if state.paused_at is None or state.paused_by is None:
        return None
    return PauseView(since=state.paused_at, by=state.paused_by, reason=state.pause_reason)


def tick_plan_view(schedule: Schedule, plan: TickPlan, *, users: int, limit: int) -> PlanView:
    """The view of a tick's plan, with at most `limit` users of each kind."""
    return PlanView(
        schedule=schedule.name,
        tick=plan.tick,
        users=users,
        active_users=plan.active,
        queued=len(plan.starts),
        skipped=_by_reason(plan.skips),
        dynamic=plan.dynamic,
        requests_needed=plan.requests_needed,
        requests_allowed=plan.requests_allowed,
        starts=_starts(plan.starts, limit),
        skips=_skips(plan.skips, limit),
        freshness=None,
    )


def freshness_plan_view(
    schedule: Schedule, plan: FreshPlan, *, now: datetime, users: int, limit: int
) -> PlanView:
    """The view of the plan of a freshness check."""
    goal, fresh = schedule.freshness, plan.freshness
    assert goal is not None
    stale = [
        StaleUser(
            user_id=each.user_id, connection_id=each.connection_id, succeeded_at=each.succeeded_at
        )
        for each in fresh.stale[:limit]
    ]
    return PlanView(
        schedule=schedule.name,
        tick=now,
        users=users,
        active_users=fresh.users,
        queued=len(plan.starts),
        skipped=_by_reason(plan.skips),
        dynamic=False,
        requests_needed=len(plan.starts) * schedule.requests,
        requests_allowed=None,
        starts=_starts(plan.starts, limit),
        skips=_skips(plan.skips, limit),
        freshness=FreshnessView(
            message=explain_freshness(goal, fresh.users, len(fresh.stale), fresh.reachable),
            users=fresh.users,
            stale_count=len(fresh.stale),
            stale=stale,
            requests_needed_a_day=fresh.requests_needed_a_day,
            requests_allowed_a_day=fresh.requests_allowed_a_day,
            reachable_s=_seconds(fresh.reachable),
        ),
    )


def _starts(starts: Sequence[PlannedStart], limit: int) -> list[StartView]:
    return [
        StartView(
            user_id=start.candidate.user_id,
            connection_id=start.candidate.connection_id,
            starts_at=start.at,
        )
        for start in starts[:limit]
    ]


def _skips(skips: Sequence[Skip], limit: int) -> list[SkipView]:
    return [
        SkipView(
            user_id=skip.candidate.user_id,
            connection_id=skip.candidate.connection_id,
            reason=skip.reason,
            message=explain_skip(skip.reason),
            job_id=skip.candidate.active_job_id,
        )
        for skip in skips[:limit]
    ]


def _by_reason(skips: Sequence[Skip]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for skip in skips:
        counts[skip.reason.value] = counts.get(skip.reason.value, 0) + 1
    return counts


def tick_user_view(user: TickUser) -> TickUserView:
    """The view of what a tick meant for a user."""
    return TickUserView(
        user_id=user.user_id,
        connection_id=user.connection_id,
        job_id=user.job_id,
        reason=user.reason,
        message=None if user.reason is None else explain_skip(user.reason),
    )


def history_days(
    schedule: Schedule,
    days: Sequence[date],
    ticks: Sequence[Tick],
    outcomes: Sequence[TickOutcome],
) -> list[DayHistory]:
    """What the ticks of each day added up to, by days of the schedule's zone."""
    fields = {JobState.SUCCESS: "succeeded", JobState.FAILED: "failed"}
    fields[JobState.CANCELLED] = "cancelled"
    sums: dict[date, dict[str, int]] = {day: {} for day in days}

    def add(at: datetime, field: str, count: int) -> None:
        of_day = sums.setdefault(at.astimezone(schedule.zone).date(), {})
        of_day[field] = of_day.get(field, 0) + count

    for tick in ticks:
        add(tick.tick, "ticks", 1)
        add(tick.tick, "queued", tick.queued)
        add(tick.tick, "skipped", tick.skipped)
    for each in outcomes:
        add(each.tick, fields.get(each.state, "active"), each.count)
    return [DayHistory(day=day, **sums[day]) for day in days]


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
