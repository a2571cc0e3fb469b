"""Examples of schedules for the OpenAPI document, made by the engine's own functions."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from headgate.flow.schedules.view import (
    DayHistory,
    ScheduleHistory,
    schedule_view,
    tick_plan_view,
    tick_user_view,
)
from headgate.model.candidate import Candidate, PlannedStart, Skip, TickPlan
from headgate.model.job import Lane
from headgate.model.schedule import Schedule, ScheduleState, SkipReason, Tick, TickKind, TickUser
from headgate.ports.schedules import UserFailures

_TICK = datetime(2023, 10, 27, 2, tzinfo=UTC)
_DAY = timedelta(days=1)
_SCHEDULE = Schedule(name="nightly-notes", sync="notes", cron="0 2 * * *")
_STATE = ScheduleState(
    name=_SCHEDULE.name,
    definition=_SCHEDULE.definition,
    last_tick=_TICK,
    next_tick_at=_TICK + _DAY,
    updated_at=_TICK,
)
_JOB_ID, _CONNECTION = "job_01JGFJ7VW0ABCDEFGHJKMNPQRS", "conn_01JGFJ7VW0ABCDEFGHJKMNPQRS"
_ADA = Candidate(user_id="user-abc", connection_id=_CONNECTION)
_BOB = Candidate(user_id="user-def", connection_id="conn_01JGFJ8VW0ABCDEFGHJKMNPQRS")
_PLAN = TickPlan(
    tick=_TICK + _DAY,
    starts=(PlannedStart(_ADA, _TICK + _DAY),),
    skips=(Skip(_BOB, SkipReason.INACTIVE),),
    active=1,
    requests_needed=1,
    requests_allowed=12_000,
)

PAUSE: dict[str, Any] = {"reason": "The provider is down for maintenance"}
SCHEDULE = schedule_view(_SCHEDULE, _STATE, Lane.HOT, [_TICK + _DAY, _TICK + 2 * _DAY])
PLAN = tick_plan_view(_SCHEDULE, _PLAN, users=2, limit=10)
TICK = Tick(
    schedule=_SCHEDULE.name,
    tick=_TICK,
    kind=TickKind.CRON,
    fired_at=_TICK,
    queued=1,
    skipped=1,
    worker="host-1_01JGFJ7VW0ABCDEFGHJKMNPQRS",
)
TICK_USERS = [
    tick_user_view(TickUser(user_id="user-abc", connection_id=_CONNECTION, job_id=_JOB_ID)),
    tick_user_view(
        TickUser(user_id="user-def", connection_id=_BOB.connection_id, reason=SkipReason.INACTIVE)
    ),
]
HISTORY = ScheduleHistory(
    schedule=_SCHEDULE.name,
    tz="UTC",
    days=[DayHistory(day=date(2023, 10, 27), ticks=1, queued=1, skipped=1, succeeded=1)],
    failures_min=3,
    failing_users=[UserFailures("user-ghi", 4)],
)
