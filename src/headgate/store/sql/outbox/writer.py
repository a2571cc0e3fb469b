"""Enqueues messages in a transaction that an application has begun for its own rows.

So a message is there if and only if the application's rows are. On Postgres workers are woken by a
NOTIFY in the same transaction, which is sent when it is committed.
"""

import re
from datetime import datetime
from typing import Any

from sqlalchemy import Dialect, Select, bindparam, func, literal_column, select

from headgate.base.clock import Clock
from headgate.base.errors import Conflict, InvalidInput
from headgate.model.states import DELIVERY
from headgate.ports.outbox import NewMessage
from headgate.ports.signal import OUTBOX
from headgate.store.sql.engine.callers import CallerStatement, CallerTransaction, caller_transaction
from headgate.store.sql.engine.prepared import Statement
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.tables import deliveries, messages

#: How often a message is written while others with its key come and go.
WRITE_TRIES_MAX = 5

#: As `signals/postgres.py` notifies, but from nobody: so no process ignores it as its own.
_NOTIFY: Select[Any] = select(literal_column(f"pg_notify('headgate', '- {OUTBOX}')"))


def _now(dialect: Dialect) -> Any:
    """The store's time: the server's own, or else the parameter `now`."""
    if dialect.name == "postgresql":
        return func.now()
    return bindparam("now", type_=messages.c.created_at.type)


def _insert_message(dialect: Dialect) -> Statement:
    given: dict[str, Any] = {
        name: bindparam(name) for name in messages.c.keys() if name != "created_at"
    }
    return (
        insert_into(dialect, messages)
        .values({**given, "created_at": _now(dialect)})
        .on_conflict_do_nothing(index_elements=[messages.c.topic, messages.c.key])
        .returning(messages.c.id)
    )


def _find_message(dialect: Dialect) -> Statement:
    mine = (messages.c.topic == bindparam("topic"), messages.c.key == bindparam("key"))
    query = select(messages.c.id, messages.c.payload_hash, messages.c.user_id).where(*mine)
    # So that it is not purged before its new deliveries are there.
    return query.with_for_update(read=True, key_share=True)


def _insert_delivery(dialect: Dialect) -> Statement:
    names = ("id", "message_id", "topic", "target", "run_id", "user_id")
    now = _now(dialect)
    values = {
        **{name: bindparam(name) for name in names},
        "state": literal_column(f"'{DELIVERY.initial.value}'"),
        **dict.fromkeys(("attempts", "crashes", "token"), literal_column("0")),
        **dict.fromkeys(("next_attempt_at", "created_at", "updated_at"), now),
    }
    return insert_into(dialect, deliveries).values(values).on_conflict_do_nothing()


#: What SQLite and Postgres say where Headgate's tables are not.
_TABLE_MISSING = re.compile(r'no such table: headgate_|"headgate_\w+" does not exist')

_INSERT_MESSAGE = CallerStatement(_insert_message)
_FIND_MESSAGE = CallerStatement(_find_message)
_INSERT_DELIVERY = CallerStatement(_insert_delivery)
_WAKE = CallerStatement(lambda dialect: _NOTIFY)


def delivery_id(message_id: str, target: str) -> str:
    """The id of a message's delivery to a target."""
    return f"{message_id}.{target}"


class SqlOutboxWriter:
    """The `OutboxWriter` port on a SQL database."""

    def __init__(self, clock: Clock) -> None:
        """Take the time from `clock` where the database has none of its own."""
        self._clock = clock

    def enqueue(self, tx: Any, new: NewMessage, *, wake: bool) -> str:
        caller = caller_transaction(tx)
        try:
            message_id = write(caller, new, self._clock.now())
        except Exception as error:
            if _TABLE_MISSING.search(str(error)):
                raise InvalidInput(
                    "tx",
                    "it is not the app's database, or that has no tables yet: open the app "
                    "once, or run `headgate migrate`",
                ) from None
            raise
        if wake and caller.dialect.name == "postgresql":
            _WAKE.run(caller, {})
        return message_id


def write(caller: CallerTransaction, new: NewMessage, now: datetime) -> str:
    """Write a message and its deliveries; returns the id of the message under its key.

    `now` is the time where the database has none of its own.
    """
    message_id = _write_message(caller, new, now)
    for target in new.targets:
        values = {
            "id": delivery_id(message_id, target),
            "message_id": message_id,
            "topic": new.topic,
            "target": target,
            "run_id": new.run_id,
            "user_id": new.user_id,
            "now": now,
        }
        _INSERT_DELIVERY.run(caller, values)
    return message_id


def _write_message(caller: CallerTransaction, new: NewMessage, now: datetime) -> str:
    values = {
        "id": new.id,
        "topic": new.topic,
        "key": new.key,
        "payload": new.payload,
        "payload_hash": new.payload_hash,
        "run_id": new.run_id,
        "user_id": new.user_id,
        "now": now,
    }
    for _ in range(WRITE_TRIES_MAX):
        if _INSERT_MESSAGE.run(caller, values):
            return new.id
        # It finds nothing if the other was purged meanwhile: then there is room for this one.
        for message_id, payload_hash, user_id in _FIND_MESSAGE.run(caller, values):
            if user_id != new.user_id:
                # A receiver knows a message by its key alone, whoever it belongs to.
                raise Conflict("key: it was used before for a message of another user; use another")
            if payload_hash == new.payload_hash:
                return str(message_id)
            raise Conflict(
                f"key: it was used before for another payload (message {message_id}); use a new key"
            )
    raise Conflict(f"key: messages with the key {new.key!r} come and go; try again")
