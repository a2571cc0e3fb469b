"""Claims of jobs: the lowest turns of a lane, with the sleeping jobs that have come due.

On Postgres a claim is one statement, and needs no explicit transaction.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BindParameter,
    Connection,
    FromClause,
    Integer,
    Select,
    bindparam,
    case,
    exists,
    false,
    func,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.model.job import Job, Lane, Reason
from headgate.store.sql.engine.moment import Moment, instant
from headgate.store.sql.engine.prepared import prepare
from headgate.store.sql.engine.types import UtcTime
from headgate.store.sql.jobs import queue
from headgate.store.sql.jobs.queue import OF_LANE, bind_syncs, for_each_sync
from headgate.store.sql.jobs.settle import TABLE
from headgate.store.sql.tables import ASLEEP, QUEUED, jobs

_MOST = bindparam("most", type_=Integer)


class ClaimResult(NamedTuple):
    """The jobs that a claim got, and when the first sleeping job is due."""

    jobs: list[Job]
    #: Seconds; None if no job sleeps.
    next_due_s: float | None
    #: More jobs are queued, but a claim at the same time has locked them and may leave them.
    crowded: bool = False

    @property
    def wakes(self) -> bool:
        """Whether sleeping jobs are due: more than join at once, or locked by another claim."""
        return self.next_due_s is not None and self.next_due_s <= 0


def claim(
    tx: Connection,
    now: Moment,
    lane: Lane,
    *,
    syncs: Sequence[str],
    worker: str,
    limit: int,
    lease: timedelta,
) -> ClaimResult:
    """Claim the lowest turns of the lane; sleeping jobs that are due join the queue first."""
    binds = {
        "of_lane": lane,
        "most": limit,
        "by_worker": worker,
        **bind_syncs(syncs),
        **now.binds(lease=lease),
    }
    run = _claim_on_postgres if tx.dialect.name == "postgresql" else _claim_on_sqlite
    return run(tx, now, len(syncs), binds)


def _claim_on_postgres(
    tx: Connection, now: Moment, syncs: int, binds: dict[str, Any]
) -> ClaimResult:
    rows = prepare(_wake_and_claim(syncs, server=now.server), tx.dialect).run(tx, binds)
    at, first, crowded = rows[0][:3]
    # If no job was claimed, there is still one row.
    taken = [TABLE.to_row(row[3:]) for row in rows if row[3] is not None]
    return ClaimResult(taken, _seconds_until(first, at), crowded)


def _claim_on_sqlite(tx: Connection, now: Moment, syncs: int, binds: dict[str, Any]) -> ClaimResult:
    """The same in two statements of one transaction, or in four if jobs are due."""
    server, dialect = now.server, tx.dialect
    look = prepare(_next_due(syncs, server=server), dialect)
    [(at, first)] = look.run(tx, binds)
    if first is not None and first <= at:
        prepare(_wake(syncs, server=server), dialect).run(tx, binds)
        [(at, first)] = look.run(tx, binds)
    rows = prepare(_claim(_queued(syncs), server=server), dialect).run(tx, binds)
    return ClaimResult([TABLE.to_row(row) for row in rows], _seconds_until(first, at))


def _seconds_until(first: Any, at: Any) -> float | None:
    return None if first is None else max(0.0, (first - at).total_seconds())


# ---- the statements ----------------------------------------------------------------------------


@cache
def _queued(syncs: int) -> FromClause:
    """The lowest turns of each sync, locked."""

    def of_sync(sync: BindParameter[str]) -> Select[Any]:
        return (
            select(jobs.c.id, jobs.c.turn, jobs.c.wake_at)
            .where(QUEUED, jobs.c.lane == OF_LANE, jobs.c.sync == sync)
            .order_by(jobs.c.turn, jobs.c.wake_at, jobs.c.id)
            .limit(_MOST)
            .with_for_update(skip_locked=True)
        )

    return for_each_sync(syncs, of_sync)


@cache
def _claim(candidates: FromClause, *, server: bool) -> ReturningUpdate[Any]:
    """Claim the lowest turns of the candidates."""
    each = candidates.c
    lowest = select(each.id).order_by(each.turn, each.wake_at, each.id).limit(_MOST)
    started_at = func.coalesce(jobs.c.started_at, instant(server=server), type_=UtcTime)
    return TABLE.claim(
        lowest, server=server, reason=Reason.WORKING, turn=None, started_at=started_at
    )


@cache
def _wake(syncs: int, *, server: bool) -> ReturningUpdate[Any]:
    """Give turns to the sleeping jobs that are due."""
    due = queue.due_sleepers(syncs, server=server)
    return _give_turns(due)


def _give_turns(due: CTE) -> ReturningUpdate[Any]:
    return update(jobs).where(jobs.c.id == due.c.id).values(turn=due.c.turn).returning(jobs.c.id)


@cache
def _next_due(syncs: int, *, server: bool, besides: CTE | None = None) -> Select[Any, Any]:
    """The store's time, and when the first sleeping job is due, without those that join now."""

    def of_sync(sync: BindParameter[str]) -> Select[Any]:
        asleep = select(func.min(jobs.c.wake_at).label("first")).where(
            ASLEEP, jobs.c.lane == OF_LANE, jobs.c.sync == sync
        )
        return asleep if besides is None else asleep.where(jobs.c.id.not_in(select(besides.c.id)))

    first = for_each_sync(syncs, of_sync)
    at = instant(server=server).label("at")
    return select(at, func.min(first.c.first)).select_from(first)


@cache
def _wake_and_claim(syncs: int, *, server: bool) -> Select[Any]:
    """Claim, wake and read the next due time in one statement, and what a concurrent claim hides.

    A claim locks the first jobs of every sync and takes the lowest of them; the others are left.
    All parts see the rows as they were before, so a job that has just come due is a candidate by
    the turn that it gets, and is either claimed or given that turn.
    """
    due = queue.due_sleepers(syncs, server=server)
    queued = _queued(syncs)
    candidates = union_all(
        select(queued.c.id, queued.c.turn, queued.c.wake_at),
        select(due.c.id, due.c.turn, due.c.wake_at),
    ).subquery("candidates")
    taken = _claim(candidates, server=server).cte("taken")
    woken = _give_turns(due).where(jobs.c.id.not_in(select(taken.c.id))).cte("woken")
    look = _next_due(syncs, server=server, besides=due).cte("look")
    left = for_each_sync(
        syncs,
        lambda sync: (
            select(jobs.c.id)
            .where(
                QUEUED,
                jobs.c.lane == OF_LANE,
                jobs.c.sync == sync,
                jobs.c.id.not_in(select(taken.c.id)),
            )
            .limit(1)
        ),
    )
    # Evaluated only if the claim got fewer jobs than it wanted.
    wants_more = select(func.count()).select_from(taken).scalar_subquery() < _MOST
    crowded = case((wants_more, exists(select(left.c.id))), else_=false()).label("crowded")
    found = look.outerjoin(taken, true())
    return select(*look.c, crowded, *taken.c).select_from(found).add_cte(woken)
