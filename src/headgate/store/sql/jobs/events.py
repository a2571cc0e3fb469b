"""The events of jobs: appended in order, and pruned from the oldest."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, select

from headgate.base.encoding import JsonObject
from headgate.model.job import JobEvent
from headgate.ports.jobs.events import LastEvent
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, reads, writes_timed
from headgate.store.sql.tables import job_events, jobs

#: An event to append: job, time, kind, data.
NewEvent = tuple[str, datetime, str, JsonObject]

_append = insert_many(job_events, ("job_id", "at", "kind", "data"), order_by="place")


def append(tx: Connection, new_events: Sequence[NewEvent]) -> None:
    """Append events.

    A job's events are written under its row's lock and numbered in the given order, so their ids
    are in the order of the events.
    """
    rows = [
        {"place": place, "job_id": job, "at": at, "kind": kind, "data": data}
        for place, (job, at, kind, data) in enumerate(new_events)
    ]
    _append.run(tx, rows)


def list_events(tx: Connection, job_id: str, *, after: int, limit: int) -> list[JobEvent]:
    """A job's events after the id `after`."""
    query = (
        select(job_events)
        .where(job_events.c.job_id == job_id, job_events.c.id > after)
        .order_by(job_events.c.id)
        .limit(limit)
    )
    return [JobEvent(**row) for row in tx.execute(query).mappings()]


def last_events(tx: Connection, job_ids: Sequence[str]) -> dict[str, LastEvent]:
    """How far each of these jobs is; its state and its last event are read at one moment."""
    last = (
        select(func.coalesce(func.max(job_events.c.id), 0))
        .where(job_events.c.job_id == jobs.c.id)
        .scalar_subquery()
    )
    query = select(jobs.c.id, last, jobs.c.state).where(jobs.c.id.in_(job_ids))
    return {job_id: LastEvent(event_id, state) for job_id, event_id, state in tx.execute(query)}


def prune_events(tx: Connection, now: Moment, *, older_than: timedelta, limit: int) -> int:
    """Delete those of the `limit` oldest events that have reached that age; returns how many.

    The oldest events have the lowest ids, so no index on the time is needed.
    """
    oldest = select(job_events.c.id).order_by(job_events.c.id).limit(limit).subquery()
    old = (
        select(job_events.c.id)
        .where(job_events.c.id.in_(select(oldest.c.id)), job_events.c.at < now.at(-older_than))
        # Skip rows that another pruner is deleting, instead of waiting for it.
        .with_for_update(skip_locked=True)
        # In a CTE, so that it runs exactly once.
        .cte("old")
    )
    statement = (
        delete(job_events).where(job_events.c.id.in_(select(old.c.id))).returning(job_events.c.id)
    )
    return len(tx.execute(statement).all())


class SqlEvents(SqlPort):
    """The events of jobs in SQLite or Postgres."""

    list_events = reads(list_events)
    last_events = reads(last_events)
    prune_events = writes_timed(prune_events)
