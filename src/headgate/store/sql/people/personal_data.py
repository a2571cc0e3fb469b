"""What is stored of users: each table with personal data, and how a user's rows are found in it.

Both the erasure and the export of a user go through this list, so what one of them knows, the other
knows too. A test demands that every table is in it, or says why it holds no personal data.
"""

import gzip
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    delete,
    func,
    literal,
    select,
    tuple_,
)

from headgate.base.encoding import JsonObject, from_json
from headgate.store.sql.items.packing import ENCODING
from headgate.store.sql.tables import (
    api_keys,
    connect_attempts,
    connections,
    coverage,
    deliveries,
    high_water_marks,
    idempotent_requests,
    item_documents,
    items,
    job_events,
    jobs,
    messages,
    receipts,
    record_owners,
    records,
    tick_users,
    tombstones,
    troubles,
    users,
)


class Owner(NamedTuple):
    """A user, and every connection that they ever had."""

    user_id: str
    connection_ids: Sequence[str]


#: The condition for the rows of a user.
Find = Callable[[Connection, Owner], ColumnElement[bool]]


class PersonalTable(NamedTuple):
    """A table with personal data."""

    #: What a row is called in an export and in the counts of an erasure.
    kind: str
    table: Table
    find: Find
    #: Columns that no export shows: secrets, and what is of no use outside.
    hidden: frozenset[str] = frozenset()


class ExportPage(NamedTuple):
    """A page of exported rows, and the key of the last one if there are more."""

    rows: list[JsonObject]
    after: tuple[object, ...] | None


# ---- how rows are found ------------------------------------------------------------------------


def _of_user(column: ColumnElement[Any]) -> Find:
    return lambda tx, owner: column == owner.user_id


def _of_connection(column: ColumnElement[Any]) -> Find:
    return lambda tx, owner: column.in_(owner.connection_ids)


def _of_sync_and_connection(table: Table) -> Find:
    """By a key that begins with the sync, which is looked up so that the index is used."""

    def find(tx: Connection, owner: Owner) -> ColumnElement[bool]:
        of_connection = table.c.connection_id.in_(owner.connection_ids)
        return table.c.sync.in_(_distinct(tx, table.c.sync)) & of_connection

    return find


def _of_parent(column: ColumnElement[Any], parent: FromClause, find_parent: Find) -> Find:
    return lambda tx, owner: column.in_(select(parent.c.id).where(find_parent(tx, owner)))


def _distinct(tx: Connection, column: ColumnElement[Any]) -> list[str]:
    """The values of the first column of an index, by one look for each of them."""
    found: list[str] = []
    while True:
        query = select(func.min(column))
        value = tx.execute(query.where(column > found[-1]) if found else query).scalar()
        if value is None:
            return found
        found.append(value)


_jobs_of, _keys_of = _of_user(jobs.c.user_id), _of_user(api_keys.c.user_id)
_messages_of, _items_of = _of_user(messages.c.user_id), _of_connection(items.c.connection_id)
_WORK = {"token", "lease_until", "worker"}

#: In the order of an export. An erasure goes the other way, so that children go before the rows by
#: which they are found.
TABLES = (
    PersonalTable("user", users, _of_user(users.c.id)),
    PersonalTable(
        "connection",
        connections,
        _of_user(connections.c.user_id),
        frozenset({"sealed_access", "sealed_refresh", "key_id", "lease_holder", "lease_until"}),
    ),
    PersonalTable(
        "connect_attempt",
        connect_attempts,
        _of_user(connect_attempts.c.user_id),
        frozenset({"state_hash", "session_hash", "sealed_verifier"}),
    ),
    PersonalTable("api_key", api_keys, _keys_of, frozenset({"hash"})),
    PersonalTable(
        "api_answer",
        idempotent_requests,
        _of_parent(idempotent_requests.c.owner, api_keys, _keys_of),
        frozenset({"request_hash"}),
    ),
    PersonalTable("job", jobs, _jobs_of, frozenset({"request_hash", "turn", *_WORK})),
    PersonalTable("job_event", job_events, _of_parent(job_events.c.job_id, jobs, _jobs_of)),
    PersonalTable("message", messages, _messages_of, frozenset({"payload_hash"})),
    PersonalTable(
        "delivery",
        deliveries,
        _of_parent(deliveries.c.message_id, messages, _messages_of),
        frozenset(_WORK),
    ),
    PersonalTable("item", items, _items_of, frozenset(_WORK)),
    PersonalTable(
        "item_document",
        item_documents,
        _of_parent(item_documents.c.item_id, items, _items_of),
        frozenset({"hash"}),
    ),
    PersonalTable("record_owner", record_owners, _of_user(record_owners.c.user_id)),
    PersonalTable("record", records, _of_sync_and_connection(records), frozenset({"hash"})),
    PersonalTable("tombstone", tombstones, _of_connection(tombstones.c.connection_id)),
    PersonalTable("coverage", coverage, _of_sync_and_connection(coverage)),
    PersonalTable("high_water_mark", high_water_marks, _of_sync_and_connection(high_water_marks)),
    PersonalTable("receipt", receipts, _of_sync_and_connection(receipts), frozenset({"token"})),
    PersonalTable("scheduled_run", tick_users, _of_user(tick_users.c.user_id)),
    PersonalTable("trouble", troubles, _of_user(troubles.c.user_id)),
)

#: Tables without personal data, each with the reason.
IMPERSONAL = {
    "headgate_budgets": "counts of requests; a key names at most a connection, by a random id",
    "headgate_limiters": "when a limiter began to count",
    "headgate_removed_connections": "random ids of connections and hashes of users, for a week",
    "headgate_workers": "worker processes",
    "headgate_target_stops": "targets",
    "headgate_schedules": "schedules; `paused_by` is an operator",
    "headgate_ticks": "ticks of schedules, with counts; `asked_by` is an operator",
    "headgate_erasures": "a finished erasure holds no user; one under way needs theirs",
}


# ---- deleting and exporting --------------------------------------------------------------------


def delete_some(tx: Connection, each: PersonalTable, owner: Owner, *, limit: int) -> int:
    """Delete up to `limit` rows of the user; returns how many."""
    key = tuple_(*each.table.primary_key.columns)
    some = select(*each.table.primary_key.columns).where(each.find(tx, owner)).limit(limit)
    return tx.execute(delete(each.table).where(key.in_(some))).rowcount


def has_rows(tx: Connection, each: PersonalTable, owner: Owner) -> bool:
    """Whether anything of the user is in the table."""
    query = select(literal(1)).where(each.find(tx, owner)).limit(1)
    return tx.execute(query.select_from(each.table)).scalar() is not None


def owner_of(tx: Connection, user_id: str, known: Iterable[str] = ()) -> Owner:
    """The user, with the connections that are `known`, or theirs by what is stored of them."""
    found = set(known)
    for table in (connections, jobs, record_owners, tick_users):
        column = table.c.id if table is connections else table.c.connection_id
        found.update(
            tx.execute(select(column).distinct().where(table.c.user_id == user_id)).scalars()
        )
    return Owner(user_id, sorted(found))


def export_page(
    tx: Connection, user_id: str, kind: str, *, after: tuple[object, ...] | None, limit: int
) -> ExportPage:
    """Rows of that kind that are stored of the user, in the order of their keys."""
    each = next(table for table in TABLES if table.kind == kind)
    owner = owner_of(tx, user_id)
    query = _after(select(each.table).where(each.find(tx, owner)), each.table, after)
    key = each.table.primary_key.columns
    rows = tx.execute(query.order_by(*key).limit(limit)).mappings().all()
    last = tuple(rows[-1][column] for column in key) if len(rows) == limit else None
    return ExportPage([_document(each, dict(row)) for row in rows], last)


def _after(query: Select[Any], table: Table, after: tuple[object, ...] | None) -> Select[Any]:
    if after is None:
        return query
    key = list(table.primary_key.columns)
    values = [literal(value, column.type) for value, column in zip(after, key, strict=True)]
    return query.where(tuple_(*key) > tuple_(*values))


def _document(each: PersonalTable, row: dict[str, Any]) -> JsonObject:
    if "body" in row and row["body"] is not None:
        row["body"] = _readable(row)
    shown = {name: value for name, value in row.items() if name not in each.hidden}
    plain: JsonObject = msgspec.to_builtins({"type": each.kind, **shown})
    return plain


def _readable(row: dict[str, Any]) -> object:
    """A stored body as JSON or as a text; one that is neither stays bytes, in base64."""
    body: bytes = row["body"]
    if row.get("encoding") == ENCODING:
        body = gzip.decompress(body)
    try:
        return from_json(body)
    except (msgspec.DecodeError, RecursionError):
        return body
