"""Jobs: submitting and claiming them.

Many at once are submitted in `bulk_submit.py`. Changes of claimed jobs are in `settle.py`, the
order of the queue is in `queue.py`, and lists of jobs are in `job_lists.py`. On Postgres submitting
and claiming are one statement each, and need no explicit transaction.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Dialect,
    Integer,
    Select,
    Text,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    null,
    select,
    true,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.base.errors import ActiveJobExists, Conflict, KeyReused
from headgate.model.job import EventKind, Job, Lane, Reason
from headgate.ports.signal import SignalHint
from headgate.ports.store import NewJob, SubmitResult
from headgate.store.sql import events, queue
from headgate.store.sql.moment import ZERO, Moment, instant
from headgate.store.sql.new_jobs import DEFAULTS, FIRST, GIVEN
from headgate.store.sql.prepared import prepare
from headgate.store.sql.queue import OF_LANE, bind_syncs, for_each_sync
from headgate.store.sql.settle import TABLE, active_job_of
from headgate.store.sql.statements import ROWS_MAX, insert_into
from headgate.store.sql.tables import ACTIVE, ASLEEP, QUEUED, job_events, jobs
from headgate.store.sql.types import UtcTime

_SUBMIT_TRIES_MAX = 3

# ---- submitting --------------------------------------------------------------------------------


def submit(
    tx: Connection,
    now: Moment,
    new: NewJob,
    *,
    syncs: Sequence[str],
    hint: SignalHint | None = None,
) -> SubmitResult:
    """Store a job, unless its key or an active job of the same sync and connection exists.

    On Postgres, whoever listens gets the hint with the commit.
    """
    for _ in range(_SUBMIT_TRIES_MAX):
        if (job := _insert(tx, now, new, syncs, hint)) is not None:
            return SubmitResult(job, created=True)
        if (same := _by_key(tx, new)) is not None:
            return SubmitResult(same, created=False)
        if (active := active_job_of(tx, new.sync, new.connection_id)) is not None:
            raise ActiveJobExists(active)
        # The job that was in the way has ended between the two statements: try again.
    raise Conflict("other requests for the same sync and connection keep winning; try again")


def _insert(
    tx: Connection, now: Moment, new: NewJob, syncs: Sequence[str], hint: SignalHint | None
) -> Job | None:
    queued = new.delay <= ZERO and new.sync in syncs
    on_server = tx.dialect.name == "postgresql"
    statement = _submission(
        tx.dialect,
        len(syncs) if queued else None,
        server=now.server,
        notifies=on_server and hint is not None,
    )
    event_data = {"lane": new.lane.value}
    values = {name: getattr(new, name) for name in GIVEN}
    found = prepare(statement, tx.dialect).run(
        tx,
        {
            "of_lane": new.lane,
            "event_data": event_data,
            "hint": None if hint is None else hint.payload,
            "channel": None if hint is None else hint.channel,
            **{f"new_{name}": value for name, value in values.items()},
            **bind_syncs(syncs),
            **now.binds(delay=max(new.delay, ZERO)),
        },
    )
    if not found:
        return None
    created_at, wake_at, turn = found[0][:3]
    del values["request_hash"]
    job = Job(
        **values,
        **FIRST,
        provider=new.source,
        wake_at=wake_at,
        turn=turn,
        created_at=created_at,
        updated_at=created_at,
    )
    if not on_server:
        events.append(tx, [(job.id, job.created_at, EventKind.SUBMITTED, event_data)])
    return job


@cache
def _submission(
    dialect: Dialect, syncs: int | None, *, server: bool, notifies: bool
) -> Select[Any]:
    """Insert a job, into the queue of so many syncs or asleep; on Postgres with its first event."""
    values: dict[str, BindParameter[Any]] = {
        name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in GIVEN
    }
    now = instant(server=server)
    insert = (
        insert_into(dialect, jobs)
        .values(
            **{name: literal(value, jobs.c[name].type) for name, value in DEFAULTS.items()},
            **values,
            **FIRST,
            provider=values["source"],
            wake_at=instant(server=server, after="delay"),
            turn=null() if syncs is None else queue.next_turn(syncs, values["user_id"]),
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing()
        .returning(jobs.c.created_at, jobs.c.wake_at, jobs.c.turn, jobs.c.id)
    )
    if dialect.name != "postgresql":
        return insert  # type: ignore[return-value]
    job = insert.cte("job")
    event = insert_into(dialect, job_events).from_select(
        ["job_id", "at", "kind", "data"],
        select(
            job.c.id,
            job.c.created_at,
            literal(EventKind.SUBMITTED.value),
            bindparam("event_data", type_=job_events.c.data.type),
        ),
    )
    columns = [*job.c]
    if notifies:
        # Here, because Postgres does not evaluate a CTE that only selects and is never read.
        texts = (bindparam("channel", type_=Text), bindparam("hint", type_=Text))
        columns.append(func.pg_notify(*texts))
    return select(*columns).add_cte(event.cte("event"))


def _by_key(tx: Connection, new: NewJob) -> Job | None:
    if new.key is None:
        return None
    query = select(jobs.c.id, jobs.c.request_hash).where(
        jobs.c.user_id == new.user_id, jobs.c.key == new.key
    )
    row = tx.execute(query).one_or_none()
    if row is None:
        return None
    if row.request_hash != new.request_hash:
        raise KeyReused(row.id)
    return TABLE.get(tx, row.id, user_id=new.user_id)


def active_by_connection(
    tx: Connection, sync: str, connection_ids: Sequence[str]
) -> dict[str, str]:
    """The ids of the sync's active jobs for these connections, by connection."""
    found: dict[str, str] = {}
    for begin in range(0, len(connection_ids), ROWS_MAX):
        some = connection_ids[begin : begin + ROWS_MAX]
        query = select(jobs.c.connection_id, jobs.c.id).where(
            ACTIVE, jobs.c.sync == sync, jobs.c.connection_id.in_(some)
        )
        found.update((connection_id, job_id) for connection_id, job_id in tx.execute(query))
    return found


# ---- claiming ----------------------------------------------------------------------------------


class ClaimResult(NamedTuple):
    """The jobs that a claim got, and when the first sleeping job is due."""

    jobs: list[Job]
    #: Seconds; None if no job sleeps.
    next_due_s: float | None
    #: More jobs are queued, but a claim at the same time has locked them and may leave them.
    crowded: bool = False

    @property
    def wakes(self) -> bool:
        """Whether sleeping jobs are due."""
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
    wake: bool = False,
) -> ClaimResult:
    """Claim the lowest turns of the lane; with `wake`, jobs that are due join the queue first."""
    if wake:
        queue.wake_sleepers(tx, now, lane, syncs)
    binds = {
        "of_lane": lane,
        "most": limit,
        "by_worker": worker,
        **bind_syncs(syncs),
        **now.binds(lease=lease),
    }
    return _run_claim(tx, now, len(syncs), binds)


def _run_claim(tx: Connection, now: Moment, syncs: int, binds: dict[str, Any]) -> ClaimResult:
    if tx.dialect.name == "postgresql":
        rows = prepare(_claim_and_next_due(syncs, server=now.server), tx.dialect).run(tx, binds)
        at, first, crowded = rows[0][:3]
        # If no job was claimed, there is still one row.
        taken = [TABLE.to_row(row[3:]) for row in rows if row[3] is not None]
    else:
        claimed = prepare(_claim(syncs, server=now.server), tx.dialect).run(tx, binds)
        taken = [TABLE.to_row(row) for row in claimed]
        [(at, first)] = prepare(_next_due(syncs, server=now.server), tx.dialect).run(tx, binds)
        crowded = False
    due_s = None if first is None else max(0.0, (first - at).total_seconds())
    return ClaimResult(taken, due_s, crowded)


@cache
def _claim(syncs: int, *, server: bool) -> ReturningUpdate[Any]:
    limit_param = bindparam("most", type_=Integer)

    def queued(sync: BindParameter[str]) -> Select[Any]:
        return (
            select(jobs.c.id, jobs.c.turn, jobs.c.wake_at)
            .where(QUEUED, jobs.c.lane == OF_LANE, jobs.c.sync == sync)
            .order_by(jobs.c.turn, jobs.c.wake_at, jobs.c.id)
            .limit(limit_param)
            .with_for_update(skip_locked=True)
        )

    first = for_each_sync(syncs, queued)
    lowest = (
        select(first.c.id).order_by(first.c.turn, first.c.wake_at, first.c.id).limit(limit_param)
    )
    started_at = func.coalesce(jobs.c.started_at, instant(server=server), type_=UtcTime)
    return TABLE.claim(
        lowest, server=server, reason=Reason.WORKING, turn=None, started_at=started_at
    )


@cache
def _next_due(syncs: int, *, server: bool) -> Select[Any, Any]:
    first = for_each_sync(
        syncs,
        lambda sync: select(func.min(jobs.c.wake_at).label("first")).where(
            ASLEEP, jobs.c.lane == OF_LANE, jobs.c.sync == sync
        ),
    )
    at = instant(server=server).label("at")
    return select(at, func.min(first.c.first)).select_from(first)


@cache
def _claim_and_next_due(syncs: int, *, server: bool) -> Select[Any]:
    """Claim and read the next due time in one statement, and whether a concurrent claim hides jobs.

    A claim locks the first jobs of every sync and takes the lowest of them; the others are left.
    """
    taken = _claim(syncs, server=server).cte("taken")
    due = _next_due(syncs, server=server).cte("look")
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
    wants_more = select(func.count()).select_from(taken).scalar_subquery() < bindparam(
        "most", type_=Integer
    )
    crowded = case((wants_more, exists(select(left.c.id))), else_=false()).label("crowded")
    return select(*due.c, crowded, *taken.c).select_from(due.outerjoin(taken, true()))
