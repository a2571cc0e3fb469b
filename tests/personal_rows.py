"""A row of a user's in every table that holds personal data, made from the tables themselves."""

from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    Integer,
    LargeBinary,
    Table,
    insert,
)

from headgate.model.user import Preferences
from headgate.store.sql.engine.types import JsonOf, OneOf, UtcTime
from headgate.store.sql.items.packing import compress
from headgate.store.sql.people.personal_data import TABLES

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECRET = b"a-secret-of-somebody"

#: What a row needs to be a valid one; `...` and all other columns that may not be empty get any
#: value of their type.
_FIELDS: dict[str, dict[str, Any]] = {
    "headgate_users": {"preferences": Preferences()},
    "headgate_jobs": {"wake_at": AT, "sync": "notes", "provider": "strava", "key": None},
    "headgate_connections": {"scopes": ("read",), "external_id": None},
    "headgate_api_keys": {"role": "user"},
    "headgate_items": {"next_attempt_at": AT, "external_id": ...},
    "headgate_deliveries": {"next_attempt_at": AT},
    "headgate_item_documents": {"encoding": "gzip", "body": compress(b'{"time": [0, 1]}')},
    "headgate_tick_users": {"schedule": "nightly", "reason": None, "tick": AT},
    "headgate_troubles": {"trouble": None},
    "headgate_job_events": {"id": None},
}


def store_rows(tx: Connection, user: str, *, count: int = 1) -> None:
    """Store `count` rows of the user's in each table, of one connection for each."""
    for number in range(count):
        for each in TABLES:
            if each.table.name != "headgate_users" or number == 0:
                tx.execute(insert(each.table).values(personal_row(each.table, user, number)))


def personal_row(table: Table, user: str, number: int = 0) -> dict[str, Any]:
    """A row of the user's."""
    own = f"{user}-{number}"
    fixed = {"user_id": user, "connection_id": f"{own}-connection", "sync": f"{user}-sync"}
    if table.name == "headgate_users":
        fixed["id"] = user
    elif table.name == "headgate_connections":
        fixed["id"] = f"{own}-connection"
    parents = {"job_id": "jobs", "item_id": "items", "message_id": "messages", "owner": "api_keys"}
    fixed |= {name: f"{own}-headgate_{parent}" for name, parent in parents.items()}
    given = {**fixed, **_FIELDS.get(table.name, {})}
    needed = [each for each in table.columns if each.name in given or not each.nullable]
    row = {each.name: given.get(each.name, ...) for each in needed}
    row = {
        name: _value(table, table.c[name], own) if value is ... else value
        for name, value in row.items()
    }
    return {name: value for name, value in row.items() if name != "id" or value is not None}


def _value(table: Table, column: Column[Any], own: str) -> Any:
    match column.type:
        case OneOf() as kind:
            return next(iter(kind.words.__members__.values()))
        case UtcTime():
            return AT
        case JsonOf() as kind:
            return [] if "tuple" in str(kind.kind) else {}
        case LargeBinary():
            return SECRET
        case Boolean():
            return False
        case Date():
            return date(2026, 1, 5)
        case Integer() | BigInteger():
            return 0
        case _ if column.name in ("hash", "request_hash", "session_hash", "state_hash", "key_id"):
            return f"{SECRET.decode()}-{own}"
        case _:
            return f"{own}-{table.name}"
