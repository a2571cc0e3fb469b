"""The jobs that the rescuer handles: of lost workers, late cancels, and cooled-down providers."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, func, select, update

from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, autocommit_reads, reads, writes_timed
from headgate.store.sql.jobs.settle import TABLE
from headgate.store.sql.leases.table import seconds_until_first, times
from headgate.store.sql.tables import CANCELLING, PAUSED, PROBING, jobs


def list_expired(tx: Connection, now: Moment, *, limit: int) -> list[Job]:
    """Jobs whose lease has expired, and cancelling jobs past their deadline."""
    late = (
        select(*TABLE.columns)
        .where(CANCELLING, jobs.c.wake_at < now.at())
        .order_by(jobs.c.wake_at)
        .limit(limit)
    )
    lost = TABLE.list_expired(tx, now, limit=limit)
    found = {job.id: job for job in (*lost, *TABLE.find(tx, late))}
    return list(found.values())[:limit]


# Without NULL, which a worker of an older version may have written: NOT IN would match no row.
_PROBED = select(jobs.c.provider).where(PROBING, jobs.c.provider.is_not(None))
_SHUT = jobs.c.reason == Reason.BREAKER
_RECOVERING = jobs.c.reason == Reason.RECOVERING


def list_thawable(tx: Connection, now: Moment, *, syncs: Sequence[str], limit: int) -> list[Job]:
    """Recovering jobs that are due, and the first paused job of each provider without a probe.

    Only of these syncs: a probe that no worker here can run would keep the breaker open.
    """
    due = and_(jobs.c.wake_at <= now.at(), jobs.c.sync.in_(syncs))
    recovering = (
        select(*TABLE.columns)
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
    found = TABLE.find(tx, recovering)
    for provider in tx.execute(shut).scalars().all():
        first = select(*TABLE.columns).where(PAUSED, _SHUT, due, jobs.c.provider == provider)
        found += TABLE.find(tx, first.order_by(jobs.c.wake_at, jobs.c.id).limit(1))
    return found[:limit]


def list_waiting_probes(tx: Connection) -> list[Job]:
    """Probes that wait for a worker."""
    query = select(*TABLE.columns).where(PROBING, jobs.c.state == JobState.PENDING)
    return TABLE.find(tx, query)


def fails_others(tx: Connection, job: Job, provider: str, *, pauses_below: int) -> bool:
    """Whether jobs of other users are paused because of the provider, less often than so."""
    others = select(jobs.c.id).where(
        PAUSED,
        _SHUT,
        jobs.c.provider == provider,
        jobs.c.user_id != job.user_id,
        jobs.c.pauses < pauses_below,
    )
    return tx.execute(others.limit(1)).first() is not None


def open_breakers(tx: Connection, *, syncs: Sequence[str]) -> dict[str, int]:
    """How many jobs of these syncs the breaker has paused, by the provider that failed."""
    query = (
        select(jobs.c.provider, func.count())
        .where(PAUSED, jobs.c.reason == Reason.BREAKER, jobs.c.sync.in_(syncs))
        .group_by(jobs.c.provider)
    )
    return {provider: count for provider, count in tx.execute(query)}


_let_go = (
    update(jobs)
    .where(jobs.c.id == bindparam("job_id"), PAUSED)
    .values(reason=Reason.RECOVERING, wake_at=bindparam("at"), updated_at=bindparam("now"))
)


def release_provider(
    tx: Connection, now: Moment, provider: str, *, stagger: timedelta, limit: int
) -> int:
    """Resume the provider's paused jobs, one every `stagger`, the longest waiting first."""
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


def next_sweep_s(tx: Connection, now: Moment, *, syncs: Sequence[str]) -> float | None:
    """Seconds until the first lease, deadline or cool-down of these syncs ends."""
    binds = {"own": list(syncs), **now.binds()}
    return seconds_until_first(tx, _next_sweep(server=now.server), binds)


@cache
def _next_sweep(*, server: bool) -> Select[Any]:
    first = select(func.min(jobs.c.wake_at))
    own = jobs.c.sync.in_(bindparam("own", expanding=True))
    waits = (
        first.where(CANCELLING),
        first.where(PAUSED, _RECOVERING, own),
        first.where(PAUSED, _SHUT, own, jobs.c.provider.not_in(_PROBED)),
    )
    return times(TABLE.first_expiry(), *(query.scalar_subquery() for query in waits), server=server)


class SqlBreakers(SqlPort):
    """Breakers in SQLite or Postgres."""

    def __init__(self, database: Database, syncs: Sequence[str]) -> None:
        """Use `database`, which must be open and migrated, for an application with these syncs."""
        super().__init__(database)
        self._syncs = tuple(syncs)

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        now = self.database.moment
        return await self.database.read(
            lambda tx: list_thawable(tx, now(), syncs=self._syncs, limit=limit)
        )

    async def open_breakers(self) -> Mapping[str, int]:
        return await self.database.read(lambda tx: open_breakers(tx, syncs=self._syncs))

    list_waiting_probes = autocommit_reads(list_waiting_probes)
    fails_others = reads(fails_others)
    release_provider = writes_timed(release_provider)
