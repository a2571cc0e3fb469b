"""The JSON documents of users, erasures, connections, items and deliveries: API and `--json`.

The fields are listed explicitly, so a new column is not shown until it is added here.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from headgate.base.encoding import Json, JsonObject, from_json
from headgate.flow.jobs.explain import explain_connection, explain_item
from headgate.flow.outbox.explain import explain_delivery
from headgate.model.connection import Connection
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.erasure import Erasure
from headgate.model.item import Item
from headgate.model.user import User

T = TypeVar("T")


def user_document(user: User, *, operator: bool = True) -> JsonObject:
    """The document of a user; who paused them is for operators alone."""
    preferences = user.preferences
    return _plain(
        {
            "id": user.id,
            "plan": user.plan,
            "last_login_at": user.last_login_at,
            "preferences": {
                "frequency": preferences.frequency,
                "time": preferences.time,
                "zone": preferences.zone,
                "email": preferences.email,
                "notify": preferences.notify,
            },
            "paused_at": user.paused_at,
            "paused_by": user.paused_by if operator else None,
            "pause_reason": user.pause_reason,
            "created_at": user.created_at,
            "updated_at": user.updated_at,
        }
    )


def erasure_document(erasure: Erasure, *, unreached: Sequence[str]) -> JsonObject:
    """The document of an erasure, for operators; it does not say whose it was.

    `unreached` are systems that could not be started: what they keep of the user stays.
    """
    return _plain(
        {
            "id": erasure.id,
            "finished": erasure.finished_at is not None,
            "deleted": dict(erasure.deleted),
            "unrevoked": list(erasure.unrevoked),
            "unreached": sorted(unreached),
            "asked_by": erasure.asked_by,
            "asked_at": erasure.asked_at,
            "finished_at": erasure.finished_at,
        }
    )


def connection_document(connection: Connection, *, operator: bool = True) -> JsonObject:
    """The document of a connection, without its credentials; errors are for operators alone."""
    return _plain(
        {
            "id": connection.id,
            "user_id": connection.user_id,
            "source": connection.source,
            "state": connection.state,
            "reason": connection.reason,
            "message": explain_connection(connection),
            "error": connection.error if operator else None,
            "external_id": connection.external_id,
            "scopes": list(connection.scopes),
            "expires_at": connection.expires_at,
            "created_at": connection.created_at,
            "updated_at": connection.updated_at,
        }
    )


def item_document(item: Item, *, operator: bool = True) -> JsonObject:
    """The document of an item; errors are for operators alone."""
    return _plain(
        {
            "id": item.id,
            "collection": item.collection,
            "user_id": item.user_id,
            "connection_id": item.connection_id,
            "external_id": item.external_id,
            "lane": item.lane,
            "start_time": item.start_time,
            "state": item.state,
            "stuck": item.stuck,
            "retry_count": item.retry_count,
            "deferrals": item.deferrals,
            "crashes": item.crashes,
            "next_attempt_at": item.next_attempt_at,
            "deferred_until": item.deferred_until,
            "attempted_at": item.attempted_at,
            "limited_at": item.limited_at,
            "message": explain_item(item),
            "error": item.error if operator else None,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }
    )


def delivery_document(
    delivery: Delivery, *, now: datetime, stop: TargetStop | None = None
) -> JsonObject:
    """The document of a delivery, for operators; `stop` is that of its target, if it stopped."""
    return _plain(
        {
            "id": delivery.id,
            "message_id": delivery.message_id,
            "topic": delivery.topic,
            "target": delivery.target,
            "run_id": delivery.run_id,
            "user_id": delivery.user_id,
            "state": delivery.state,
            "attempts": delivery.attempts,
            "crashes": delivery.crashes,
            "next_attempt_at": delivery.next_attempt_at,
            "attempted_at": delivery.attempted_at,
            "sent_at": delivery.sent_at,
            "target_stopped_at": None if stop is None else stop.stopped_at,
            "message": explain_delivery(delivery, now=now, stop=stop),
            "error": delivery.error,
            "created_at": delivery.created_at,
            "updated_at": delivery.updated_at,
        }
    )


def message_document(message: Message) -> JsonObject:
    """The document of a message with its payload, for operators."""
    return {
        **_plain(
            {
                "id": message.id,
                "topic": message.topic,
                "key": message.key,
                "run_id": message.run_id,
                "user_id": message.user_id,
                "payload_hash": message.payload_hash,
                "payload_bytes": len(message.payload.encode()),
                "intact": message.intact,
                "created_at": message.created_at,
            }
        ),
        "payload": _payload(message),
    }


def _payload(message: Message) -> Json:
    """The payload as JSON; as a text where other programs have spoilt it."""
    try:
        return from_json(message.payload)
    except (msgspec.DecodeError, RecursionError):
        return message.payload


def page_document(
    found: Sequence[T], limit: int, to_document: Callable[[T], JsonObject]
) -> JsonObject:
    """A page of the first `limit` rows, with the id of the last one if there are more.

    The caller reads one row more than `limit`, which shows whether there is another page.
    """
    data = [to_document(each) for each in found[:limit]]
    return {"data": data, "next_cursor": data[-1]["id"] if len(found) > limit else None}


def _plain(fields: dict[str, object]) -> JsonObject:
    """The fields as JSON values: times and states become texts."""
    plain: dict[str, object] = msgspec.to_builtins(fields)
    return plain
