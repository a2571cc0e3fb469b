"""Builders of messages, and an outbox that is filled as tests want it."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, update

from headgate.base.encoding import Json, hash_text, to_json
from headgate.model import delivery as change
from headgate.model.delivery import Delivery
from headgate.ports.outbox import DeliveryFilter, NewMessage, OutgoingMessage
from headgate.store.sql.outbox.store import SqlOutbox
from headgate.store.sql.tables import deliveries, messages
from tests.stores import LEASE, START

TOPIC = "orders"
TOPICS = (TOPIC,)
#: Later than the server's own time, by which a caller's messages become due.
YEARS_S = 20 * 365 * 86_400.0

_numbers = itertools.count(1)


def new_message(
    payload: Json = None,
    *,
    topic: str = TOPIC,
    key: str | None = None,
    targets: Sequence[str] = ("local",),
    run_id: str | None = None,
    user_id: str | None = None,
) -> NewMessage:
    """A message to enqueue; its id sorts after the last one's."""
    message_id = f"message_{next(_numbers):08d}"
    text = to_json({"order": message_id} if payload is None else payload)
    return NewMessage(
        id=message_id,
        topic=topic,
        key=key or message_id,
        payload=text,
        payload_hash=hash_text(text),
        run_id=run_id,
        user_id=user_id,
        targets=targets,
    )


async def add(outbox: SqlOutbox, new: Sequence[NewMessage], *, at: datetime) -> None:
    """Enqueue messages at that time of the store: Postgres notes its own, which a test cannot move.

    What was added before and has its time already is left alone.
    """
    await outbox.add_messages(new)

    def backdate(tx: Connection) -> None:
        ids = [each.id for each in new]
        for table, column, names in (
            (messages, messages.c.id, ("created_at",)),
            (deliveries, deliveries.c.message_id, ("created_at", "updated_at", "next_attempt_at")),
        ):
            statement = update(table).where(column.in_(ids)).values(dict.fromkeys(names, at))
            tx.execute(statement)

    if not outbox.database.embedded:
        await outbox.database.write(backdate)


async def filled(outbox: SqlOutbox, count: int, **fields: Any) -> list[NewMessage]:
    """Add so many messages more, all due."""
    new = [new_message(**fields) for _ in range(count)]
    await add(outbox, new, at=START)
    return new


def ids(of: Sequence[NewMessage]) -> list[str]:
    """The ids of messages, in their order."""
    return [each.id for each in of]


async def claim(
    outbox: SqlOutbox,
    target: str = "local",
    *,
    limit: int = 100,
    worker: str = "worker_1",
    topics: Sequence[str] = TOPICS,
    **scope: str,
) -> Sequence[OutgoingMessage]:
    """Claim what is due to a target."""
    return await outbox.claim(target, topics, limit=limit, lease=LEASE, worker=worker, **scope)


async def send(outbox: SqlOutbox, target: str = "local", *, limit: int = 100) -> list[Delivery]:
    """Claim what is due, and settle it as accepted."""
    taken = await claim(outbox, target, limit=limit)
    after = await outbox.settle_many([(change.succeed(each.delivery), None) for each in taken])
    return [each for each in after if each is not None]


async def all_deliveries(outbox: SqlOutbox) -> Sequence[Delivery]:
    """Every delivery, in the order of their ids."""
    return await outbox.list_deliveries(DeliveryFilter(), limit=10_000)
