"""Messages as a whole: read, replayed to further targets, and purged.

Where a message is on its way, its deliveries say; they are in `outbox.py`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    delete,
    distinct,
    func,
    or_,
    select,
)

from headgate.base.errors import NotFound
from headgate.model.delivery import Message
from headgate.model.states import DELIVERY, DeliveryState
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.statements import ROWS_MAX, insert_into
from headgate.store.sql.outbox.writer import delivery_id
from headgate.store.sql.tables import SENT, deliveries, in_states, messages

_COLUMNS = tuple(messages.c[name] for name in Message.__struct_fields__)
#: The other deliveries of the same message.
_others = deliveries.alias()


def _to_message(row: Any) -> Message:
    return Message(**dict(zip(Message.__struct_fields__, row, strict=True)))


def messages_by_id(tx: Connection, ids: set[str]) -> dict[str, Message]:
    """The messages of these ids."""
    if not ids:
        return {}
    query = select(*_COLUMNS).where(messages.c.id.in_(sorted(ids)))
    return {row.id: _to_message(row) for row in tx.execute(query)}


def get_message(tx: Connection, message_id: str, *, user_id: str | None = None) -> Message:
    """The message; NotFound if it does not exist or belongs to another user."""
    query = select(*_COLUMNS).where(messages.c.id == message_id)
    if user_id is not None:
        query = query.where(messages.c.user_id == user_id)
    row = tx.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no message {message_id!r}")
    return _to_message(row)


# ---- replaying ---------------------------------------------------------------------------------


def _none(query: Select[Any]) -> ColumnElement[bool]:
    """The condition that a query finds nothing, looked up row by row.

    NOT EXISTS says the same, but Postgres may turn it into a join that reads a whole table.
    """
    return query.limit(1).scalar_subquery().is_(None)


def _missing(topics: Sequence[str], target: str, since: datetime) -> list[ColumnElement[bool]]:
    there = select(deliveries.c.id).where(
        deliveries.c.message_id == messages.c.id, deliveries.c.target == target
    )
    return [messages.c.topic.in_(topics), messages.c.created_at >= since, _none(there)]


def count_replayable(tx: Connection, topics: Sequence[str], target: str, since: datetime) -> int:
    """How many messages since then have no delivery to the target yet."""
    query = select(func.count()).select_from(messages).where(*_missing(topics, target, since))
    return tx.execute(query).scalar_one()


def replay(
    tx: Connection,
    now: Moment,
    topics: Sequence[str],
    target: str,
    since: datetime,
    *,
    limit: int,
) -> int:
    """Add deliveries to the target for some messages that have none; returns how many."""
    at = now.read(tx)
    query = (
        select(messages.c.id, messages.c.topic, messages.c.run_id, messages.c.user_id)
        .where(*_missing(topics, target, since))
        .order_by(messages.c.created_at, messages.c.id)
        .limit(limit)
        # So that none is purged before its new delivery is there.
        .with_for_update(read=True, key_share=True)
    )
    rows = [
        {
            "id": delivery_id(row.id, target),
            "message_id": row.id,
            "topic": row.topic,
            "target": target,
            "run_id": row.run_id,
            "user_id": row.user_id,
            "state": DELIVERY.initial,
            "attempts": 0,
            "crashes": 0,
            "token": 0,
            "next_attempt_at": at,
            "created_at": at,
            "updated_at": at,
        }
        for row in tx.execute(query)
    ]
    if rows:
        tx.execute(insert_into(tx.dialect, deliveries).on_conflict_do_nothing(), rows)
    return len(rows)


# ---- purging -----------------------------------------------------------------------------------


def purge_sent(tx: Connection, now: Moment, *, older_than: timedelta, limit: int) -> int:
    """Delete some messages that every target accepted so long ago; returns how many."""
    before = now.at(-older_than)
    unfinished = or_(~in_states(_others, DeliveryState.SENT), _others.c.sent_at >= before)
    query = (
        select(deliveries.c.message_id)
        .where(SENT, deliveries.c.sent_at < before, _none_of_message(unfinished))
        .order_by(deliveries.c.sent_at)
        .limit(min(limit, ROWS_MAX))
    )
    return _delete(tx, tx.execute(query).scalars(), unfinished)


def count_dead(
    tx: Connection, now: Moment, targets: Sequence[str], *, older_than: timedelta
) -> int:
    """How many messages `purge_dead` without a limit would delete."""
    query = select(func.count(distinct(deliveries.c.message_id)))
    return tx.execute(query.where(*_dead(now, targets, older_than))).scalar_one()


def purge_dead(
    tx: Connection, now: Moment, targets: Sequence[str], *, older_than: timedelta, limit: int
) -> int:
    """Delete some messages that one of these targets rejected so long ago; returns how many.

    Those that are still on their way to another target, or arrived there lately, are kept.
    """
    query = (
        select(deliveries.c.message_id)
        .where(*_dead(now, targets, older_than))
        .distinct()
        .limit(min(limit, ROWS_MAX))
    )
    found = tx.execute(query).scalars().all()
    # A dead delivery may be retried, unlike one that was sent: not from here on.
    lock = select(deliveries.c.id).where(deliveries.c.message_id.in_(found))
    tx.execute(lock.order_by(deliveries.c.id).with_for_update())
    return _delete(tx, found, _unended(_others, now.at(-older_than)))


def _dead(now: Moment, targets: Sequence[str], older_than: timedelta) -> list[ColumnElement[bool]]:
    before = now.at(-older_than)
    return [
        in_states(deliveries, DeliveryState.DEAD),
        deliveries.c.target.in_(targets),
        deliveries.c.updated_at < before,
        _none_of_message(_unended(_others, before)),
    ]


def _unended(table: FromClause, before: Any) -> ColumnElement[bool]:
    """The condition that a delivery is neither sent nor dead, or is so only since `before`."""
    return or_(
        ~in_states(table, DeliveryState.SENT, DeliveryState.DEAD),
        and_(in_states(table, DeliveryState.SENT), table.c.sent_at >= before),
        and_(in_states(table, DeliveryState.DEAD), table.c.updated_at >= before),
    )


def _none_of_message(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """The condition that no delivery of the same message meets `condition`, on `_others`."""
    same = _others.c.message_id == deliveries.c.message_id
    return _none(select(_others.c.id).where(same, condition))


def _delete(tx: Connection, found: Iterable[str], unfinished: ColumnElement[bool]) -> int:
    """Delete those of the messages that have no delivery that is `unfinished`; returns how many."""
    ids = _lock_messages(tx, sorted(set(found)))
    if ids:
        # Again, under the lock: until then a message may get another delivery.
        again = select(_others.c.message_id).where(_others.c.message_id.in_(ids), unfinished)
        ids = sorted(set(ids) - set(tx.execute(again).scalars()))
    if ids:
        tx.execute(delete(deliveries).where(deliveries.c.message_id.in_(ids)))
        tx.execute(delete(messages).where(messages.c.id.in_(ids)))
    return len(ids)


def _lock_messages(tx: Connection, ids: Sequence[str]) -> list[str]:
    """Lock those of the messages that nobody else has locked; returns their ids."""
    query = select(messages.c.id).where(messages.c.id.in_(ids))
    # In the order of their ids, so that two that purge do not wait for each other.
    locked = query.order_by(messages.c.id).with_for_update(skip_locked=True)
    return list(tx.execute(locked).scalars()) if ids else []
