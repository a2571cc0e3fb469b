"""The retention of jobs: those that ended long ago are deleted, with their events.

What is still asked of old jobs is kept: a user's last job of each sync and connection, and the last
one that succeeded. Schedules see from them how old the data is, estimates how long a job takes, and
an erasure which connections were the user's.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, exists, or_, select

from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import PrunedJobs
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.tables import in_states, job_events, jobs

_LATER = jobs.alias("later")


def prune_jobs(
    tx: Connection, now: Moment, *, older_than: timedelta, limit: int, after: str | None = None
) -> PrunedJobs:
    """Look at `limit` jobs in the order of their ids, and delete those that may go.

    Ids sort by the time of creation, so the walk ends at the first job that is too young to have
    ended that long ago, and no index on the time is needed.
    """
    before = now.at(-older_than)
    window = select(jobs.c.id, (jobs.c.created_at < before).label("old")).order_by(jobs.c.id)
    if after is not None:
        window = window.where(jobs.c.id > after)
    seen = tx.execute(window.limit(limit)).all()
    ids = [job_id for job_id, old in seen if old]
    if not ids:
        return PrunedJobs(count=0, after=None)
    gone = _delete(tx, ids, before)
    ends_here = len(ids) < limit
    return PrunedJobs(count=gone, after=None if ends_here else ids[-1])


def _delete(tx: Connection, ids: list[str], before: ColumnElement[datetime]) -> int:
    """Delete those of the jobs that ended before then and are not the last of their kind."""
    query = (
        select(jobs.c.id)
        .where(
            jobs.c.id.between(ids[0], ids[-1]),
            # No time: it has not ended.
            jobs.c.finished_at < before,
            _has_later(),
            or_(jobs.c.state != JobState.SUCCESS, _has_later(in_states(_LATER, JobState.SUCCESS))),
        )
        .order_by(jobs.c.id)
        # Skip rows that another pruner is deleting, or that somebody retries.
        .with_for_update(skip_locked=True, of=jobs)
    )
    gone = list(tx.execute(query).scalars())
    if gone:
        tx.execute(delete(job_events).where(job_events.c.job_id.in_(gone)))
        tx.execute(delete(jobs).where(jobs.c.id.in_(gone)))
    return len(gone)


def _has_later(*where: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a job of the same sync and connection ended later, by one index."""
    return exists().where(
        in_states(_LATER, *JOB.terminal),
        _LATER.c.sync == jobs.c.sync,
        _LATER.c.connection_id == jobs.c.connection_id,
        _LATER.c.finished_at > jobs.c.finished_at,
        *where,
    )
