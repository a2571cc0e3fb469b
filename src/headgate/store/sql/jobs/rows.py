"""The rows of new jobs, and the statement that inserts many of them with their first events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    literal_column,
    select,
    true,
)
from sqlalchemy import (
    cast as cast_to,
)
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from headgate.base.encoding import JsonObject
from headgate.model.job import EventKind, Reason
from headgate.model.states import JobState
from headgate.ports.jobs.submission import NewJob
from headgate.store.sql.engine.many import BatchStatement, Rows
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.jobs import events
from headgate.store.sql.tables import jobs

#: The columns of a new job, by the names of its fields.
GIVEN = tuple(name for name in NewJob.__struct_fields__ if name != "delay")
#: Named here, because SQLAlchemy does not fill in defaults if the INSERT is part of a statement.
DEFAULTS: dict[str, Any] = {
    column.name: column.default.arg
    for column in jobs.c
    if column.name not in GIVEN and isinstance(column.default, ScalarElementColumnDefault)
}
#: The first state of every job.
FIRST: dict[str, Any] = {"state": JobState.PENDING, "reason": Reason.QUEUED}

_NO_DATA: JsonObject = {}


class NewRow(NamedTuple):
    """A new job, and what its row has besides the job's own fields."""

    new: NewJob
    at: datetime
    wake_at: datetime
    #: None: it sleeps until `wake_at`.
    turn: int | None = None


def insert(tx: Connection, rows: Sequence[NewRow], data: JsonObject = _NO_DATA) -> set[str]:
    """Insert jobs with their first events; returns the ids of those that were inserted.

    A job whose key or whose sync and connection are taken is left out. `data` is added to the first
    event of each.
    """
    # Always in the same order: two batches that meet would otherwise wait for each other.
    ordered = sorted(rows, key=lambda row: (row.new.sync, row.new.connection_id))
    ids: set[str] = {row[0] for row in _insert.run(tx, ordered)}
    events.append(
        tx,
        [
            (row.new.id, row.at, EventKind.SUBMITTED, {"lane": row.new.lane.value, **data})
            for row in rows
            if row.new.id in ids
        ],
    )
    return ids


def _build(given: FromClause, dialect: Dialect) -> ClauseElement:
    values: Mapping[str, ColumnElement[Any]] = {
        **{name: _constant(jobs.c[name], value, dialect) for name, value in _CONSTANTS.items()},
        **{name: given.c[name] for name in _COLUMNS},
        "provider": given.c.source,
        "updated_at": given.c.created_at,
    }
    # WHERE true, because SQLite would parse ON CONFLICT as the ON of a join.
    rows = select(*values.values()).where(true())
    insert = insert_into(dialect, jobs).from_select(list(values), rows, include_defaults=False)
    return cast(ClauseElement, insert.on_conflict_do_nothing().returning(jobs.c.id))


def _constant(column: Column[Any], value: object, dialect: Dialect) -> ColumnElement[Any]:
    """The same value for every row, as a part of the statement."""
    convert = column.type.dialect_impl(dialect).bind_processor(dialect)
    plain = value if convert is None else convert(value)
    return cast_to(
        literal_column(f"'{plain}'" if isinstance(plain, str) else str(plain)), column.type
    )


_CONSTANTS: dict[str, Any] = {**DEFAULTS, **FIRST}
#: The columns that differ between rows, each with where a row has its value.
_COLUMNS = {
    **{name: f"new.{name}" for name in GIVEN},
    "created_at": "at",
    "wake_at": "wake_at",
    "turn": "turn",
}
_insert = BatchStatement(
    {name: Rows(jobs.c[name].type, attrgetter(path)) for name, path in _COLUMNS.items()}, _build
)
