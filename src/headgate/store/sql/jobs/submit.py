"""Jobs: submitting them.

Many at once are submitted in `bulk_submit.py`. Claims are in `job_claims.py`, changes of claimed
jobs in `settle.py`, the order of the queue in `queue.py`, and lists of jobs in `job_lists.py`. On
Postgres submitting is one statement, and needs no explicit transaction.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Dialect,
    Select,
    Text,
    bindparam,
    func,
    literal,
    null,
    select,
)

from headgate.base.errors import ActiveJobExists, Conflict, KeyReused
from headgate.model.job import EventKind, Job
from headgate.model.lease import AT_ONCE
from headgate.ports.jobs.submission import NewJob, SubmitResult
from headgate.ports.signal import SignalHint
from headgate.store.sql.engine.moment import Moment, instant
from headgate.store.sql.engine.prepared import prepare
from headgate.store.sql.engine.statements import ROWS_MAX, insert_into
from headgate.store.sql.jobs import events, queue
from headgate.store.sql.jobs.queue import bind_syncs
from headgate.store.sql.jobs.rows import DEFAULTS, FIRST, GIVEN
from headgate.store.sql.jobs.settle import TABLE, active_job_of
from headgate.store.sql.tables import ACTIVE, job_events, jobs

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
        if (same := _find_by_key(tx, new)) is not None:
            return SubmitResult(same, created=False)
        if (active := active_job_of(tx, new.sync, new.connection_id)) is not None:
            raise ActiveJobExists(active)
        # The job that was in the way has ended between the two statements: try again.
    raise Conflict("other requests for the same sync and connection keep winning; try again")


def _insert(
    tx: Connection, now: Moment, new: NewJob, syncs: Sequence[str], hint: SignalHint | None
) -> Job | None:
    queued = new.delay <= AT_ONCE and new.sync in syncs
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
            "hint_payload": None if hint is None else hint.payload,
            "hint_name": None if hint is None else hint.name,
            **{f"new_{name}": value for name, value in values.items()},
            **bind_syncs(syncs),
            **now.binds(delay=max(new.delay, AT_ONCE)),
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
        texts = (bindparam("hint_name", type_=Text), bindparam("hint_payload", type_=Text))
        columns.append(func.pg_notify(*texts))
    return select(*columns).add_cte(event.cte("event"))


def _find_by_key(tx: Connection, new: NewJob) -> Job | None:
    if new.key is None:
        return None
    # One statement: the job may be deleted at any time, after its retention.
    query = select(jobs.c.request_hash, *TABLE.columns).where(
        jobs.c.user_id == new.user_id, jobs.c.key == new.key
    )
    row = tx.execute(query).one_or_none()
    if row is None:
        return None
    request_hash, *columns = row
    job = TABLE.to_row(columns)
    if request_hash != new.request_hash:
        raise KeyReused(job.id)
    return job


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
