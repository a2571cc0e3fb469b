"""Counts of jobs, and how long they wait, for operators.

They are computed by index scans over the given syncs, as in `items/counts.py`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, ScalarSelect, Select, func, select

from headgate.model.job import Lane
from headgate.model.states import JOB, JobState
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.jobs.queue import OF_LANE, bind_syncs, for_each_sync
from headgate.store.sql.leases.table import times
from headgate.store.sql.tables import ASLEEP, QUEUED, jobs

#: Jobs that wait for a worker: queued, or asleep until a claim after their time queues them.
_WAITING = (QUEUED, ASLEEP)


def count_jobs(tx: Connection, *, syncs: Sequence[str]) -> dict[str, Mapping[JobState, int]]:
    """How many jobs of each sync are in each state, zero included."""
    counted = {sync: dict.fromkeys(JOB.states, 0) for sync in syncs}
    query = select(jobs.c.sync, jobs.c.state, func.count()).where(jobs.c.sync.in_(syncs))
    for sync, state, count in tx.execute(query.group_by(jobs.c.sync, jobs.c.state)):
        counted[sync][state] = count
    return dict(counted)


def oldest_due_s(tx: Connection, now: Moment, *, syncs: Sequence[str]) -> dict[Lane, float]:
    """How long the oldest due job of each lane has waited; 0 if none waits."""
    if not syncs:
        return dict.fromkeys(Lane, 0.0)
    query, binds = _oldest(len(syncs), server=now.server), {**bind_syncs(syncs), **now.binds()}
    return {lane: _waited_s(tx, query, {"of_lane": lane, **binds}) for lane in Lane}


def _waited_s(tx: Connection, query: Select[Any], binds: Mapping[str, Any]) -> float:
    at, *first = tx.execute(query, binds).one()
    waited_s = [(at - due).total_seconds() for due in first if due is not None]
    # A sleeping job may be due in the future.
    return max(0.0, *waited_s) if waited_s else 0.0


@cache
def _oldest(syncs: int, *, server: bool) -> Select[Any]:
    return times(*(_first(syncs, where) for where in _WAITING), server=server)


def _first(syncs: int, where: ColumnElement[bool]) -> ScalarSelect[Any]:
    """The first due time of the jobs that match `where`."""

    def of_sync(sync: BindParameter[str]) -> Select[Any]:
        due = func.min(jobs.c.wake_at).label("due")
        return select(due).where(where, jobs.c.lane == OF_LANE, jobs.c.sync == sync)

    first = for_each_sync(syncs, of_sync)
    return select(func.min(first.c.due)).scalar_subquery()
