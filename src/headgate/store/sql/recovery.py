"""What the sweeper looks for: lost workers, late cancels, providers that may have recovered."""

from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select, update

from headgate.model.job import Job, Reason
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.statements import JOB_COLUMNS, find_jobs
from headgate.store.sql.tables import CANCELLING, HELD, PAUSED, PROBING, jobs


def expired(tx: Connection, now: Moment, *, limit: int) -> list[Job]:
    """Jobs whose lease has run out, and cancelling ones past their deadline."""
    lost = (
        select(*JOB_COLUMNS)
        .where(HELD, jobs.c.lease_until < now.at())
        .order_by(jobs.c.lease_until)
        .limit(limit)
    )
    late = (
        select(*JOB_COLUMNS)
        .where(CANCELLING, jobs.c.wake_at < now.at())
        .order_by(jobs.c.wake_at)
        .limit(limit)
    )
    found = {job.id: job for query in (lost, late) for job in find_jobs(tx, query)}
    return list(found.values())[:limit]


# Without NULL, which a worker of an older version may have written: it would hide all others.
_PROBED = select(jobs.c.provider).where(PROBING, jobs.c.provider.is_not(None))
_SHUT = jobs.c.reason == Reason.BREAKER
_RECOVERING = jobs.c.reason == Reason.RECOVERING


def thawable(tx: Connection, now: Moment, *, limit: int) -> list[Job]:
    """Recovering jobs whose moment has come, and the first of each provider that nobody probes."""
    due = jobs.c.wake_at <= now.at()
    recovering = (
        select(*JOB_COLUMNS)
        .where(PAUSED, _RECOVERING, due)
        .order_by(jobs.c.provider, jobs.c.wake_at)
        .limit(limit)
    )
    shut = (
        select(jobs.c.provider)
        .where(PAUSED, _SHUT, due, jobs.c.provider.not_in(_PROBED))
        .distinct()
        .limit(limit)
    )
    found = find_jobs(tx, recovering)
    for provider in tx.execute(shut).scalars().all():
        first = select(*JOB_COLUMNS).where(PAUSED, _SHUT, due, jobs.c.provider == provider)
        found += find_jobs(tx, first.order_by(jobs.c.wake_at, jobs.c.id).limit(1))
    return found[:limit]


_let_go = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"), PAUSED)
    .values(reason=Reason.RECOVERING, wake_at=bindparam("at"), updated_at=bindparam("now"))
)


def release_provider(
    tx: Connection, now: Moment, provider: str, *, stagger: timedelta, limit: int
) -> int:
    """Set the provider's shut jobs free, one every `stagger`, the longest waiting first."""
    query = (
        select(jobs.c.id, now.at().label("now"))
        .where(PAUSED, _SHUT, jobs.c.provider == provider)
        .order_by(jobs.c.wake_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = tx.execute(query).all()
    if rows:
        free = [
            {"job_id": row.id, "now": row.now, "at": row.now + place * stagger}
            for place, row in enumerate(rows, 1)
        ]
        tx.execute(_let_go, free)
    return len(rows)


def next_sweep_s(tx: Connection, now: Moment) -> float | None:
    """Seconds until the first lease, deadline or cool-down ends."""
    at, *found = tx.execute(_next_sweep(server=now.server), now.binds()).one()
    due = [time for time in found if time is not None]
    return max(0.0, (min(due) - at).total_seconds()) if due else None


@cache
def _next_sweep(*, server: bool) -> Select[Any]:
    first = func.min(jobs.c.wake_at)
    times = [
        select(func.min(jobs.c.lease_until)).where(HELD),
        select(first).where(CANCELLING),
        select(first).where(PAUSED, _RECOVERING),
        select(first).where(PAUSED, _SHUT, jobs.c.provider.not_in(_PROBED)),
    ]
    return select(instant(server=server).label("at"), *(query.scalar_subquery() for query in times))
