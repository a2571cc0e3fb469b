"""Safeguards of schedules, switched off one by one, as a context each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, delete, update

from headgate.flow.jobs.submit import JobRequest
from headgate.flow.schedules import fire
from headgate.ports.schedules import FiredTick, NewTick
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.schedules import store as statements
from headgate.store.sql.schedules.store import SqlSchedules
from headgate.store.sql.tables import schedules, tick_users, ticks
from headgate.testing.host import current_host

_request = fire._request
_insert_tick = statements._insert_tick
_fire = SqlSchedules.fire
_states = SqlSchedules.states


def _move_where(tx: Connection, now: Moment, new: NewTick, where: ColumnElement[bool]) -> bool:
    moved = {"last_tick": new.tick, "next_tick_at": new.next_tick_at, "updated_at": now.at()}
    return tx.execute(update(schedules).where(where).values(**moved)).rowcount == 1


# ---- one firing of a tick ----------------------------------------------------------------------


def _move_anyway(tx: Connection, now: Moment, new: NewTick) -> bool:
    return _move_where(tx, now, new, schedules.c.name == new.schedule)


def _insert_again(tx: Connection, new: NewTick, at: datetime) -> bool:
    for table in (tick_users, ticks):
        tx.execute(delete(table).where(table.c.schedule == new.schedule, table.c.tick == new.tick))
    return _insert_tick(tx, new, at)


def _without_key(*args: Any) -> JobRequest:
    return replace(_request(*args), key=None)


@contextmanager
def ticks_fire_twice() -> Iterator[None]:
    """Neither the schedule's row nor the tick nor the job's key keeps a tick from firing again."""
    with (
        patch.multiple(statements, _move=_move_anyway, _insert_tick=_insert_again),
        patch.object(fire, "_request", _without_key),
    ):
        yield


# ---- the transaction ---------------------------------------------------------------------------


async def _torn_fire(port: SqlSchedules, new: NewTick) -> FiredTick | None:
    fired = await _fire(port, replace(new, jobs=(), skips=()))
    if fired is None:
        return None

    def store(tx: Connection) -> FiredTick | None:
        with patch.object(statements, "_insert_tick", lambda *_: True):
            return statements.fire(tx, port.database.moment(), replace(new, planned=None))

    return await port.database.write(store)


@contextmanager
def torn_ticks() -> Iterator[None]:
    """The schedule is moved on first, and the jobs are stored after that."""
    with patch.object(SqlSchedules, "fire", _torn_fire):
        yield


# ---- the store's clock -------------------------------------------------------------------------


async def _own_time(port: SqlSchedules, names: Sequence[str]) -> Any:
    now, states = await _states(port, names)
    host = current_host()
    return now + timedelta(seconds=host.skew_s if host else 0.0), states


def _move_at_any_time(tx: Connection, now: Moment, new: NewTick) -> bool:
    assert new.planned is not None
    planned = statements._is_planned(new.schedule, new.definition, new.planned)
    return _move_where(tx, now, new, planned)


@contextmanager
def ticks_by_own_clock() -> Iterator[None]:
    """Workers decide by their own clocks, which are wrong, what is due."""
    with (
        patch.object(SqlSchedules, "states", _own_time),
        patch.object(statements, "_move", _move_at_any_time),
    ):
        yield
