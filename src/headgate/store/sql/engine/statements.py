"""Statements that differ between the two databases."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Dialect,
    FromClause,
    Table,
    Text,
    any_,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from headgate.base.encoding import to_json

Insert = postgresql.Insert | sqlite.Insert

#: The most rows in one statement: SQLite takes 32,766 parameters, Postgres 65,535.
ROWS_MAX = 1000


def insert_into(dialect: Dialect, table: Table) -> Insert:
    """An INSERT that supports ON CONFLICT."""
    if dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def texts(dialect: Dialect, name: str) -> FromClause:
    """The texts of the parameter `name` as a table with a column `value`, however many."""
    value = column("value", Text)
    if dialect.name == "postgresql":
        given = func.unnest(bindparam(name, type_=ARRAY(Text)))
        return given.table_valued(value).render_derived(name="given")
    return func.json_each(bindparam(name, type_=Text)).table_valued(value).alias("given")


def among_texts(dialect: Dialect, value: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """The condition that `value` is one of the texts of the parameter `name`."""
    if dialect.name == "postgresql":
        return value == any_(bindparam(name, type_=ARRAY(Text)))
    return value.in_(select(texts(dialect, name).c.value))


def bind_texts(dialect: Dialect, values: Sequence[str]) -> Any:
    """The value of a parameter of `texts` and `among_texts`."""
    return values if dialect.name == "postgresql" else to_json(values)
