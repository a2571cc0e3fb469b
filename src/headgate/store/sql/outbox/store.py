"""The `OutboxStore` port on a SQL database: messages, their deliveries, and stopped targets.

A claim is one statement on one partial index, which has only the deliveries that wait. It is by
state, never by the last id seen: a transaction that commits late is not skipped.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    func,
    literal_column,
    select,
)
from sqlalchemy.sql.dml import ReturningUpdate

from headgate.base.clock import Clock
from headgate.model.delivery import DELIVERIES, Delivery, DeliveryChange, TargetStop
from headgate.model.lease import LockedRow
from headgate.model.states import DeliveryState
from headgate.ports.outbox import Backlog, DeliveryFilter, NewMessage, OutgoingMessage
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment, instant
from headgate.store.sql.engine.port import reads, reads_timed, writes, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.leases.port import SqlLeases
from headgate.store.sql.leases.table import LeaseTable, seconds_until_first
from headgate.store.sql.outbox.messages import (
    count_dead,
    count_replayable,
    get_message,
    messages_by_id,
    purge_dead,
    purge_sent,
    replay,
)
from headgate.store.sql.outbox.writer import SqlOutboxWriter
from headgate.store.sql.tables import (
    SENDING,
    UNSENT,
    deliveries,
    in_states,
    target_stops,
)

TABLE = LeaseTable[Delivery, DeliveryChange, LockedRow, None](DELIVERIES, deliveries)

_ORDER = (deliveries.c.next_attempt_at, deliveries.c.id)


# ---- claiming ----------------------------------------------------------------------------------


def claim(
    tx: Connection,
    now: Moment,
    target: str,
    topics: Sequence[str],
    *,
    limit: int,
    lease: timedelta,
    worker: str,
    run_id: str | None = None,
    message_id: str | None = None,
) -> list[OutgoingMessage]:
    """Claim deliveries that are due, and read their messages."""
    binds = {
        "to_target": target,
        "about": list(topics),
        "most": limit,
        "by_worker": worker,
        **now.binds(lease=lease),
        **({} if run_id is None else {"of_run": run_id}),
        **({} if message_id is None else {"of_message": message_id}),
    }
    statement = _claim(
        server=now.server, of_run=run_id is not None, of_message=message_id is not None
    )
    # UPDATE … RETURNING has no order; ids are by time.
    claimed = sorted(TABLE.find(tx, statement, binds), key=lambda each: each.id)
    found = messages_by_id(tx, {each.message_id for each in claimed})
    return [OutgoingMessage(each, found[each.message_id]) for each in claimed]


@cache
def _claim(*, server: bool, of_run: bool, of_message: bool) -> ReturningUpdate[Any]:
    query = select(deliveries.c.id).where(
        UNSENT,
        deliveries.c.target == bindparam("to_target"),
        deliveries.c.next_attempt_at <= instant(server=server),
        deliveries.c.topic.in_(bindparam("about", expanding=True)),
    )
    if of_run:
        query = query.where(deliveries.c.run_id == bindparam("of_run"))
    if of_message:
        query = query.where(deliveries.c.message_id == bindparam("of_message"))
    # Skip deliveries that another worker is claiming.
    due = query.order_by(*_ORDER).limit(bindparam("most", type_=Integer))
    return TABLE.claim(due.with_for_update(skip_locked=True), server=server)


def next_due_s(tx: Connection, now: Moment, target: str, topics: Sequence[str]) -> float | None:
    """Seconds until a delivery to the target is due; None if none waits."""
    first = (
        select(deliveries.c.next_attempt_at)
        .where(UNSENT, deliveries.c.target == target, deliveries.c.topic.in_(topics))
        .order_by(*_ORDER)
        .limit(1)
    )
    return seconds_until_first(tx, select(now.at(), first.scalar_subquery()), {})


def count_due(
    tx: Connection, now: Moment, target: str, topics: Sequence[str], *, run_id: str | None = None
) -> int:
    """How many deliveries a claim without a limit would claim now."""
    query = (
        select(func.count())
        .select_from(deliveries)
        .where(
            UNSENT,
            deliveries.c.target == target,
            deliveries.c.next_attempt_at <= now.at(),
            deliveries.c.topic.in_(topics),
        )
    )
    if run_id is not None:
        query = query.where(deliveries.c.run_id == run_id)
    return tx.execute(query).scalar_one()


def backlog(
    tx: Connection, now: Moment, target: str, topics: Sequence[str], *, run_id: str | None = None
) -> Backlog:
    """What waits for a later time, and how many are claimed."""
    which = [deliveries.c.target == target, deliveries.c.topic.in_(topics)]
    if run_id is not None:
        which.append(deliveries.c.run_id == run_id)
    later = (
        select(deliveries.c.state, func.count(), func.min(deliveries.c.next_attempt_at))
        .where(UNSENT, deliveries.c.next_attempt_at > now.at(), *which)
        .group_by(deliveries.c.state)
    )
    found = tx.execute(later).all()
    claimed = select(func.count()).select_from(deliveries).where(SENDING, *which)
    return Backlog(
        later={state: number for state, number, _ in found},
        next_attempt_at=min((due for _, _, due in found), default=None),
        claimed=tx.execute(claimed).scalar_one(),
    )


# ---- reading -----------------------------------------------------------------------------------


def list_deliveries(
    tx: Connection, which: DeliveryFilter, *, limit: int, after: str | None = None
) -> list[Delivery]:
    """Deliveries in the order of their ids."""
    query = select(*TABLE.columns).where(*_conditions(which))
    if after is not None:
        query = query.where(deliveries.c.id > after)
    return TABLE.find(tx, query.order_by(deliveries.c.id).limit(limit))


def count_deliveries(tx: Connection, which: DeliveryFilter) -> dict[str, dict[DeliveryState, int]]:
    """How many deliveries there are, by target and state, zero included."""
    query = select(deliveries.c.target, deliveries.c.state, func.count()).where(*_conditions(which))
    counts: dict[str, dict[DeliveryState, int]] = {}
    for target, state, number in tx.execute(
        query.group_by(deliveries.c.target, deliveries.c.state)
    ):
        counts.setdefault(target, dict.fromkeys(DeliveryState, 0))[state] = number
    return counts


def _conditions(which: DeliveryFilter) -> list[ColumnElement[bool]]:
    equal = ("target", "topic", "run_id", "message_id", "user_id")
    conditions = [
        deliveries.c[name] == getattr(which, name)
        for name in equal
        if getattr(which, name) is not None
    ]
    if which.states:
        conditions.append(in_states(deliveries, *which.states))
    return conditions or [literal_column("1") == literal_column("1")]


# ---- stopped targets ---------------------------------------------------------------------------


def stop_target(tx: Connection, now: Moment, target: str, reason: str) -> None:
    """Note that a target has stopped; the first reason is kept."""
    row = {"target": target, "reason": reason, "stopped_at": now.read(tx)}
    tx.execute(insert_into(tx.dialect, target_stops).on_conflict_do_nothing(), row)


def resume_target(tx: Connection, target: str) -> bool:
    """Note that a target goes on; whether it had stopped."""
    gone = tx.execute(delete(target_stops).where(target_stops.c.target == target))
    return gone.rowcount > 0


def stopped_targets(tx: Connection) -> dict[str, TargetStop]:
    """The targets that have stopped, by name."""
    rows = tx.execute(select(target_stops).order_by(target_stops.c.target))
    return {row.target: TargetStop(row.target, row.reason, row.stopped_at) for row in rows}


class SqlOutbox(SqlLeases[Delivery, DeliveryChange, None]):
    """Messages and deliveries in SQLite or Postgres."""

    table = TABLE

    def __init__(self, database: Database, clock: Clock) -> None:
        """Use `database`, which must be open and migrated; a writer takes its time from `clock`."""
        super().__init__(database)
        self._writer = SqlOutboxWriter(clock)

    async def add_messages(self, new: Sequence[NewMessage]) -> Sequence[str]:
        return await self.database.write(
            lambda tx: [self._writer.enqueue(tx, each, wake=False) for each in new]
        )

    claim = writes_timed(claim)
    next_due_s = reads_timed(next_due_s)
    count_due = reads_timed(count_due)
    backlog = reads_timed(backlog)
    get_message = reads(get_message)
    list_deliveries = reads(list_deliveries)
    count_deliveries = reads(count_deliveries)
    count_replayable = reads(count_replayable)
    replay = writes_timed(replay)
    purge_sent = writes_timed(purge_sent)
    count_dead = reads_timed(count_dead)
    purge_dead = writes_timed(purge_dead)
    stop_target = writes_timed(stop_target)
    resume_target = writes(resume_target)
    stopped_targets = reads(stopped_targets)
