"""What is told of connections and items: the API's answers, and what `--json` prints.

Explicit lists of fields: what is added to a row tomorrow is not told until it is added here.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from headgate.base.encoding import JsonObject
from headgate.flow.explain import explain_connection, explain_item
from headgate.model.connection import Connection
from headgate.model.item import Item

T = TypeVar("T")


def connection_document(connection: Connection, *, operator: bool = True) -> JsonObject:
    """A user's link to a provider, without what is secret about it.

    What went wrong in the words of programs is for operators; users have the message.
    """
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
    """A thing that is fetched by itself, and how it stands; the error is for operators."""
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


def page_document(found: Sequence[T], limit: int, shown: Callable[[T], JsonObject]) -> JsonObject:
    """The first `limit` of what was found, and the id to go on after where that is not all.

    Whoever fills a page asks for one more than it holds: so it is known whether there is another.
    """
    data = [shown(each) for each in found[:limit]]
    return {"data": data, "next_cursor": data[-1]["id"] if len(found) > limit else None}


def _plain(told: dict[str, object]) -> JsonObject:
    """As JSON has it: times and states as texts."""
    plain: dict[str, object] = msgspec.to_builtins(told)
    return plain
