"""Jobs: submitting, claiming, keeping and finding them.

How a held job changes is in `settle.py`, and how jobs wait for their turn in `line.py`.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Integer,
    Select,
    bindparam,
    func,
    literal,
    literal_column,
    null,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.base.errors import ActiveJobExists, Conflict, KeyReused, NotFound
from headgate.model.job import EventKind, Job, Lane, Reason
from headgate.model.states import JobState
from headgate.ports.store import Claimed, Held, JobFilter, NewJob, Submitted
from headgate.store.sql import events, high_water, line
from headgate.store.sql.moment import ZERO, Moment, instant
from headgate.store.sql.statements import JOB_COLUMNS, find_jobs, insert_into, to_job
from headgate.store.sql.tables import ACTIVE, ASLEEP, HELD, IN_LINE, jobs
from headgate.store.sql.types import UtcTime

_SUBMIT_TRIES_MAX = 3

_OF_LANE = bindparam("of_lane", type_=jobs.c.lane.type)


# ---- submitting --------------------------------------------------------------------------------


def submit(tx: Connection, now: Moment, new: NewJob) -> Submitted:
    """Store a job, unless its key or an active job of the same sync and connection is there."""
    for _ in range(_SUBMIT_TRIES_MAX):
        if (job := _insert(tx, now, new)) is not None:
            return Submitted(job, created=True)
        if (same := _by_key(tx, new)) is not None:
            return Submitted(same, created=False)
        if (active := _active(tx, new.sync, new.connection_id)) is not None:
            raise ActiveJobExists(active)
        # What was in the way has ended between the two looks: try again.
    raise Conflict("other requests for the same sync and connection keep winning; try again")


def _insert(tx: Connection, now: Moment, new: NewJob) -> Job | None:
    in_line = new.delay <= ZERO
    turn = (
        line.next_turn(literal(new.lane, jobs.c.lane.type), literal(new.user_id))
        if in_line
        else null()
    )
    statement = (
        insert_into(tx.dialect, jobs)
        .values(
            id=new.id,
            user_id=new.user_id,
            connection_id=new.connection_id,
            sync=new.sync,
            source=new.source,
            destination=new.destination,
            destination_connection_id=new.destination_connection_id,
            provider=new.source,
            mode=new.mode,
            lane=new.lane,
            key=new.key,
            request_hash=new.request_hash,
            params=new.params,
            start_date=new.start_date,
            end_date=new.end_date,
            state=JobState.PENDING,
            reason=Reason.QUEUED,
            wake_at=now.at(max(new.delay, ZERO)),
            turn=turn,
            cursor=new.cursor,
            progress=new.progress,
            created_at=now.at(),
            updated_at=now.at(),
        )
        .on_conflict_do_nothing()
        .returning(*JOB_COLUMNS)
    )
    row = tx.execute(statement).one_or_none()
    if row is None:
        return None
    job = _with_high_water(tx, to_job(row))
    events.append(tx, [(job.id, job.created_at, EventKind.SUBMITTED, {"lane": job.lane.value})])
    return job


def _with_high_water(tx: Connection, job: Job) -> Job:
    """The job with the stored mark of its sync and connection.

    Looked for only after the job is in: as the one active job of the two, only it moves the mark.
    """
    mark = high_water.of_connection(tx, job.sync, job.connection_id)
    if mark is None:
        return job
    job = msgspec.structs.replace(job, params={**job.params, "high_water": mark})
    tx.execute(update(jobs).where(jobs.c.id == job.id).values(params=job.params))
    return job


def _by_key(tx: Connection, new: NewJob) -> Job | None:
    if new.key is None:
        return None
    query = select(*JOB_COLUMNS, jobs.c.request_hash).where(
        jobs.c.user_id == new.user_id, jobs.c.key == new.key
    )
    row = tx.execute(query).mappings().one_or_none()
    if row is None:
        return None
    if row["request_hash"] != new.request_hash:
        raise KeyReused(row["id"])
    return get(tx, row["id"], user_id=new.user_id)


def _active(tx: Connection, sync: str, connection_id: str) -> str | None:
    query = select(jobs.c.id).where(
        ACTIVE, jobs.c.sync == sync, jobs.c.connection_id == connection_id
    )
    return tx.execute(query).scalar_one_or_none()


def active_job_of(tx: Connection, job: Job) -> str | None:
    """The id of the active job in whose way `job` would be."""
    return _active(tx, job.sync, job.connection_id)


# ---- claiming and keeping ----------------------------------------------------------------------


def claim(
    tx: Connection, now: Moment, lane: Lane, *, worker: str, limit: int, lease: timedelta
) -> Claimed:
    """Take the lowest turns of the lane, in one statement that nobody can come between."""
    line.wake_sleepers(tx, now, lane)
    asked = {"of_lane": lane, "most": limit, "by_worker": worker, **now.binds(lease=lease)}
    taken = [to_job(row) for row in tx.execute(_claim(server=now.server), asked).all()]
    return Claimed(taken, None if len(taken) == limit else _next_due_s(tx, now, lane))


@cache
def _claim(*, server: bool) -> ReturningUpdate[Any]:
    # In a CTE of its own, so that it runs exactly once.
    picked = (
        select(jobs.c.id)
        .where(IN_LINE, jobs.c.lane == _OF_LANE)
        .order_by(jobs.c.turn, jobs.c.wake_at, jobs.c.id)
        .limit(bindparam("most", type_=Integer))
        .with_for_update(skip_locked=True)
        .cte("picked")
    )
    now = instant(server=server)
    return (
        update(jobs)
        .where(jobs.c.id.in_(select(picked.c.id)))
        .values(
            state=JobState.RUNNING,
            reason=Reason.WORKING,
            token=jobs.c.token + literal_column("1"),
            lease_until=instant(server=server, after="lease"),
            worker=bindparam("by_worker"),
            wake_at=None,
            turn=None,
            started_at=func.coalesce(jobs.c.started_at, now, type_=UtcTime),
            attempted_at=now,
            updated_at=now,
        )
        .returning(*JOB_COLUMNS)
    )


def _next_due_s(tx: Connection, now: Moment, lane: Lane) -> float | None:
    asked = {"of_lane": lane, **now.binds()}
    at, first = tx.execute(_next_due(server=now.server), asked).one()
    return None if first is None else max(0.0, (first - at).total_seconds())


@cache
def _next_due(*, server: bool) -> Select[Any]:
    first = select(func.min(jobs.c.wake_at)).where(ASLEEP, jobs.c.lane == _OF_LANE)
    return select(instant(server=server).label("at"), first.scalar_subquery())


def heartbeat(
    tx: Connection, now: Moment, held: Sequence[Held], *, lease: timedelta
) -> dict[str, JobState]:
    """Extend what is still held under the same token.

    Rows are locked in the order of their ids, as everywhere, so that two transactions never wait
    for each other.
    """
    pairs = [(each.job_id, each.token) for each in held]
    mine = (
        select(jobs.c.id)
        .where(
            jobs.c.id.in_([job_id for job_id, _ in pairs]),
            tuple_(jobs.c.id, jobs.c.token).in_(pairs),
            HELD,
        )
        .order_by(jobs.c.id)
        .with_for_update()
        .cte("mine")
    )
    statement = (
        update(jobs)
        .where(jobs.c.id.in_(select(mine.c.id)))
        .values(lease_until=now.at(lease))
        .returning(jobs.c.id, jobs.c.state)
    )
    return {row.id: row.state for row in tx.execute(statement)}


# ---- finding -----------------------------------------------------------------------------------


def get(tx: Connection, job_id: str, *, user_id: str | None = None) -> Job:
    """The job, if it is there and, where a user is named, that user's."""
    query = select(*JOB_COLUMNS).where(jobs.c.id == job_id)
    if user_id is not None:
        query = query.where(jobs.c.user_id == user_id)
    row = tx.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no job {job_id!r}")
    return to_job(row)


def find(tx: Connection, wanted: JobFilter, *, limit: int, before: str | None) -> list[Job]:
    """Jobs, newest first: ids sort by the time they were made."""
    query = select(*JOB_COLUMNS)
    for name in ("user_id", "sync", "connection_id", "mode"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(jobs.c[name] == value)
    if wanted.states:
        query = query.where(jobs.c.state.in_(wanted.states))
    if before is not None:
        query = query.where(jobs.c.id < before)
    return find_jobs(tx, query.order_by(jobs.c.id.desc()).limit(limit))
