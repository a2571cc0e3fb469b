"""Schedules and candidates for tests of who gets a job, and when."""

from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.model.candidate import Candidate, TickPlan
from headgate.model.schedule import Schedule
from headgate.model.states import ConnectionState
from headgate.model.user import Preferences
from headgate.policy.allowance import Allowance
from headgate.policy.ticks import Period, plan_tick

#: A Monday, at two in the morning.
TICK = datetime(2026, 1, 5, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def nightly(**fields: Any) -> Schedule:
    return Schedule(**{"name": "nightly", "sync": "steps", "cron": "0 2 * * *", **fields})


def candidate(number: int = 1, **fields: Any) -> Candidate:
    """A user who is connected and was seen an hour ago; preferences may be among the fields."""
    wishes = {name: fields.pop(name) for name in ("frequency", "time", "zone") if name in fields}
    return Candidate(
        preferences=Preferences(**wishes),
        **{
            "user_id": f"user_{number}",
            "connection_id": f"connection_{number:05d}",
            "state": ConnectionState.ACTIVE,
            "last_login_at": TICK - timedelta(hours=1),
            **fields,
        },
    )


def crowd(count: int, **fields: Any) -> list[Candidate]:
    return [candidate(number, **fields) for number in range(1, count + 1)]


def period(**fields: Any) -> Period:
    return Period(**{"tick": TICK, "now": TICK, "ends": TICK + DAY, **fields})


def plan(
    candidates: list[Candidate],
    schedule: Schedule | None = None,
    allowance: Allowance | None = None,
    **fields: Any,
) -> TickPlan:
    """The plan of a night."""
    return plan_tick(schedule or nightly(), period(**fields), candidates, allowance or Allowance())


def minutes(planned: TickPlan) -> list[float]:
    """How many minutes after the tick each job starts, in order."""
    return [(start.at - planned.tick).total_seconds() / 60 for start in planned.starts]
