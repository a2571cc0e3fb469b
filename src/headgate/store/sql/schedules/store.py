"""Schedules: when each fires next, and the one transaction in which a tick fires.

The schedule's row is moved on first, guarded by the time that was read. Of two schedulers the
second waits for the first, and then finds the row moved. So whatever crashes, a tick has fired for
all of its users or for none, and once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, literal, select, update

from headgate.base.errors import NotFound
from headgate.model.schedule import ScheduleState, SkipReason, TickUser
from headgate.ports.schedules import DeclaredSchedule, FiredTick, NewTick
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads, reads_timed, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.engine.types import UtcTime
from headgate.store.sql.jobs import rows as new_jobs
from headgate.store.sql.jobs import submit as jobs
from headgate.store.sql.jobs.rows import NewRow
from headgate.store.sql.schedules import candidates
from headgate.store.sql.schedules import history as tick_history
from headgate.store.sql.tables import schedules, tick_users, ticks

_STATE = tuple(schedules.c[name] for name in ScheduleState.__struct_fields__)


def states(
    tx: Connection, now: Moment, names: Sequence[str]
) -> tuple[datetime, list[ScheduleState]]:
    """The time, and the schedules of these names, in the order of the names."""
    rows = tx.execute(select(*_STATE).where(schedules.c.name.in_(names)))
    found = {row.name: _to_state(row) for row in rows}
    return now.read(tx), [found[name] for name in names if name in found]


def declare(tx: Connection, now: Moment, declared: Sequence[DeclaredSchedule]) -> None:
    """Store schedules that are new, and the next ticks of those that are defined otherwise."""
    for each in declared:
        insert = insert_into(tx.dialect, schedules).values(
            name=each.name,
            definition=each.definition,
            next_tick_at=each.next_tick_at,
            updated_at=now.at(),
        )
        news = ("definition", "next_tick_at", "updated_at")
        tx.execute(
            insert.on_conflict_do_update(
                index_elements=[schedules.c.name],
                set_={name: insert.excluded[name] for name in news},
                where=schedules.c.definition != insert.excluded.definition,
            )
        )


# ---- firing ------------------------------------------------------------------------------------


def fire(tx: Connection, now: Moment, new: NewTick) -> FiredTick | None:
    """Store the tick with its jobs and skips, and move the schedule on."""
    if new.planned is not None and not _move(tx, now, new):
        return None
    at = now.read(tx)
    if not _insert_tick(tx, new, at):
        return None
    data = {"schedule": new.schedule, "tick": new.tick.isoformat()}
    rows = [NewRow(each.new, at, each.starts_at) for each in new.jobs]
    stored = new_jobs.insert(tx, rows, data)
    overtaken = _overtaken(tx, new, stored)
    queued = [
        TickUser(user_id=job.user_id, connection_id=job.connection_id, job_id=job.id)
        for job in (each.new for each in new.jobs)
        if job.id in stored
    ]
    _insert_users(tx, new, [*queued, *overtaken, *new.skips])
    counts = {"queued": len(queued), "skipped": len(overtaken) + len(new.skips)}
    fired = tx.execute(
        update(ticks)
        .where(ticks.c.schedule == new.schedule, ticks.c.tick == new.tick)
        .values(**counts)
        .returning(*tick_history.TICK)
    )
    return FiredTick(tick_history.to_tick(fired.one()), overtaken)


def advance(
    tx: Connection,
    now: Moment,
    name: str,
    definition: str,
    *,
    planned: datetime,
    next_tick_at: datetime,
) -> bool:
    """Move the schedule on without a tick."""
    due = _is_planned(name, definition, planned)
    statement = update(schedules).where(due).values(next_tick_at=next_tick_at, updated_at=now.at())
    return tx.execute(statement).rowcount == 1


def _is_planned(name: str, definition: str, planned: datetime) -> ColumnElement[bool]:
    """The guard of every firing: nobody has moved, paused or defined the schedule anew."""
    return and_(
        schedules.c.name == name,
        schedules.c.definition == definition,
        schedules.c.next_tick_at == planned,
        schedules.c.paused_at.is_(None),
    )


def _move(tx: Connection, now: Moment, new: NewTick) -> bool:
    assert new.planned is not None
    values = {"last_tick": new.tick, "next_tick_at": new.next_tick_at, "updated_at": now.at()}
    # The time is judged here again: the clock may have been set back since the row was read.
    due = literal(new.tick, UtcTime) <= now.at()
    planned = _is_planned(new.schedule, new.definition, new.planned)
    return tx.execute(update(schedules).where(planned, due).values(**values)).rowcount == 1


def _insert_tick(tx: Connection, new: NewTick, at: datetime) -> bool:
    """Store the tick, to be counted later; False if it has fired before."""
    insert = insert_into(tx.dialect, ticks).values(
        schedule=new.schedule,
        tick=new.tick,
        kind=new.kind,
        fired_at=at,
        queued=0,
        skipped=0,
        missed=new.missed,
        worker=new.worker,
        asked_by=new.asked_by,
    )
    inserted = tx.execute(insert.on_conflict_do_nothing().returning(ticks.c.tick))
    return inserted.one_or_none() is not None


def _overtaken(tx: Connection, new: NewTick, stored: set[str]) -> list[TickUser]:
    """The users for whom another job was started since the plan was made, with that job."""
    left = [each.new for each in new.jobs if each.new.id not in stored]
    if not left:
        return []
    active = jobs.active_by_connection(tx, left[0].sync, [job.connection_id for job in left])
    # None: that job has ended meanwhile.
    return [
        TickUser(
            user_id=job.user_id,
            connection_id=job.connection_id,
            job_id=active.get(job.connection_id),
            reason=SkipReason.JOB_ACTIVE,
        )
        for job in left
    ]


_write_users = insert_many(tick_users, tick_users.columns.keys())


def _insert_users(tx: Connection, new: NewTick, outcomes: Sequence[TickUser]) -> None:
    rows = [
        {
            "schedule": new.schedule,
            "tick": new.tick,
            "connection_id": each.connection_id,
            "user_id": each.user_id,
            "job_id": each.job_id,
            "reason": each.reason,
        }
        for each in outcomes
    ]
    _write_users.run(tx, rows)


# ---- pausing -----------------------------------------------------------------------------------


def pause(
    tx: Connection, now: Moment, name: str, *, by: str, reason: str | None
) -> tuple[ScheduleState, bool]:
    """Pause the schedule; who paused it first stays."""
    running = and_(schedules.c.name == name, schedules.c.paused_at.is_(None))
    values = {"paused_at": now.at(), "paused_by": by, "pause_reason": reason}
    return _changed(tx, now, name, running, values)


def resume(
    tx: Connection, now: Moment, name: str, *, next_tick_at: datetime
) -> tuple[ScheduleState, bool]:
    """Resume the schedule; what it would have fired meanwhile does not fire."""
    paused = and_(schedules.c.name == name, schedules.c.paused_at.is_not(None))
    values = {
        "paused_at": None,
        "paused_by": None,
        "pause_reason": None,
        "next_tick_at": next_tick_at,
    }
    return _changed(tx, now, name, paused, values)


def _changed(
    tx: Connection, now: Moment, name: str, where: ColumnElement[bool], values: dict[str, Any]
) -> tuple[ScheduleState, bool]:
    change = update(schedules).where(where).values(**values, updated_at=now.at())
    row = tx.execute(change.returning(*_STATE)).one_or_none()
    if row is not None:
        return _to_state(row), True
    row = tx.execute(select(*_STATE).where(schedules.c.name == name)).one_or_none()
    if row is None:
        raise NotFound(f"no schedule {name!r} is stored yet: a worker stores it when it starts")
    return _to_state(row), False


def _to_state(row: Row[Any]) -> ScheduleState:
    return ScheduleState(**row._mapping)


# ---- the port ----------------------------------------------------------------------------------


class SqlSchedules(SqlPort):
    """Schedules and their ticks in SQLite or Postgres."""

    states = reads_timed(states)
    declare = writes_timed(declare)
    candidates = reads_timed(candidates.find)
    fire = writes_timed(fire)
    advance = writes_timed(advance)
    pause = writes_timed(pause)
    resume = writes_timed(resume)
    ticks = reads(tick_history.latest)
    get_tick = reads(tick_history.get)
    tick_users = reads(tick_history.users_of)
    skip_counts = reads(tick_history.skip_counts)
    counts_since = reads(tick_history.counts_since)
    ticks_since = reads(tick_history.since)
    outcomes_since = reads(tick_history.outcomes_since)
    failing_users = reads(tick_history.failing_users)
    prune_ticks = writes_timed(tick_history.prune)
