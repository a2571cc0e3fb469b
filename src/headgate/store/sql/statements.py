"""Statements that differ between the two databases."""

from sqlalchemy import Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite

Insert = postgresql.Insert | sqlite.Insert

#: The most rows in one statement: SQLite takes 32,766 parameters, Postgres 65,535.
ROWS_MAX = 1000


def insert_into(dialect: Dialect, table: Table) -> Insert:
    """An INSERT that supports ON CONFLICT."""
    if dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
