"""The history of ticks: what fired, who got a job, what became of it, and the pruning of it all."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, select

from headgate.base.errors import NotFound
from headgate.model.schedule import SkipReason, Tick, TickUser
from headgate.model.states import JobState
from headgate.ports.schedules import TickCounts, TickOutcome, UserFailures
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.tables import TICK_QUEUED, in_states, jobs, tick_users, ticks

TICK = tuple(ticks.c[name] for name in Tick.__struct_fields__)
_USER = tuple(tick_users.c[name] for name in TickUser.__struct_fields__)
#: The most ticks whose users are pruned at once.
_PRUNED_TICKS_MAX = 100


def to_tick(row: Row[Any]) -> Tick:
    """The tick of a row of the columns `TICK`."""
    return Tick(**row._mapping)


def latest(tx: Connection, name: str, *, limit: int, before: datetime | None = None) -> list[Tick]:
    """Ticks, the latest first."""
    query = select(*TICK).where(ticks.c.schedule == name).order_by(ticks.c.tick.desc()).limit(limit)
    if before is not None:
        query = query.where(ticks.c.tick < before)
    return [to_tick(row) for row in tx.execute(query)]


def get(tx: Connection, name: str, tick: datetime) -> Tick:
    """The tick; NotFound if it is not stored."""
    query = select(*TICK).where(ticks.c.schedule == name, ticks.c.tick == tick)
    row = tx.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"schedule {name!r} has not fired at {tick.isoformat()}, or long ago")
    return to_tick(row)


def users_of(
    tx: Connection,
    name: str,
    tick: datetime,
    *,
    reasons: Sequence[SkipReason] = (),
    limit: int,
    after: str | None = None,
) -> list[TickUser]:
    """What the tick meant for each connection, in the order of their ids."""
    query = select(*_USER).where(tick_users.c.schedule == name, tick_users.c.tick == tick)
    if reasons:
        query = query.where(tick_users.c.reason.in_(reasons))
    if after is not None:
        query = query.where(tick_users.c.connection_id > after)
    rows = tx.execute(query.order_by(tick_users.c.connection_id).limit(limit))
    return [TickUser(**row._mapping) for row in rows]


def skip_counts(tx: Connection, name: str, tick: datetime) -> dict[SkipReason, int]:
    """How many users were skipped at the tick, by reason."""
    query = (
        select(tick_users.c.reason, func.count())
        .where(
            tick_users.c.schedule == name,
            tick_users.c.tick == tick,
            tick_users.c.reason.is_not(None),
        )
        .group_by(tick_users.c.reason)
        .order_by(tick_users.c.reason)
    )
    return {reason: count for reason, count in tx.execute(query)}


def counts_since(tx: Connection, since: datetime) -> dict[str, TickCounts]:
    """What the ticks since then added up to, by schedule."""
    sums = [func.sum(ticks.c[name]) for name in ("queued", "skipped", "missed")]
    query = (
        select(ticks.c.schedule, func.count(), *sums)
        .where(ticks.c.tick >= since)
        .group_by(ticks.c.schedule)
    )
    return {name: TickCounts(*map(int, counts)) for name, *counts in tx.execute(query)}


def since(tx: Connection, name: str, since: datetime) -> list[Tick]:
    """All ticks since then, in order."""
    query = select(*TICK).where(ticks.c.schedule == name, ticks.c.tick >= since)
    return [to_tick(row) for row in tx.execute(query.order_by(ticks.c.tick))]


def outcomes_since(
    tx: Connection, names: Sequence[str], since: datetime
) -> dict[str, list[TickOutcome]]:
    """The states of the jobs of each tick since then, by schedule."""
    schedule, tick = tick_users.c.schedule, tick_users.c.tick
    query = (
        select(schedule, tick, jobs.c.state, func.count())
        .join(jobs, jobs.c.id == tick_users.c.job_id)
        .where(schedule.in_(names), tick >= since, TICK_QUEUED)
        .group_by(schedule, tick, jobs.c.state)
    )
    found: dict[str, list[TickOutcome]] = {name: [] for name in names}
    for name, *row in tx.execute(query):
        found[name].append(TickOutcome(*row))
    return found


def failing_users(
    tx: Connection, names: Sequence[str], since: datetime, *, least: int, limit: int
) -> dict[str, list[UserFailures]]:
    """Users with at least so many failed jobs of ticks since then, the most first, by schedule."""
    schedule, user_id, failures = tick_users.c.schedule, tick_users.c.user_id, func.count()
    place = func.row_number().over(partition_by=schedule, order_by=(failures.desc(), user_id))
    failing = (
        select(schedule, user_id, failures.label("failures"), place.label("place"))
        .join(jobs, jobs.c.id == tick_users.c.job_id)
        .where(
            schedule.in_(names),
            tick_users.c.tick >= since,
            TICK_QUEUED,
            in_states(jobs, JobState.FAILED),
        )
        .group_by(schedule, user_id)
        .having(failures >= least)
        .subquery()
    )
    query = select(failing).where(failing.c.place <= limit).order_by(failing.c.place)
    found: dict[str, list[UserFailures]] = {name: [] for name in names}
    for name, *row, _ in tx.execute(query):
        found[name].append(UserFailures(*row))
    return found


def prune(tx: Connection, now: Moment, *, older_than: timedelta, limit: int) -> int:
    """Delete users of the oldest ticks, and the ticks of which no user is left."""
    old = tx.execute(
        select(ticks.c.schedule, ticks.c.tick)
        .where(ticks.c.tick < now.at(-older_than))
        .order_by(ticks.c.tick)
        .limit(_PRUNED_TICKS_MAX)
    ).all()
    deleted = 0
    for schedule, tick in old:
        of_tick = and_(tick_users.c.schedule == schedule, tick_users.c.tick == tick)
        some = select(tick_users.c.connection_id).where(of_tick).limit(limit - deleted)
        gone = delete(tick_users).where(of_tick, tick_users.c.connection_id.in_(some))
        deleted += tx.execute(gone).rowcount
        if deleted >= limit:
            return deleted
        tx.execute(delete(ticks).where(ticks.c.schedule == schedule, ticks.c.tick == tick))
        deleted += 1
    return deleted
