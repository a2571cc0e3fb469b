"""Statements that the two databases spell differently, and the rows that become jobs."""

from typing import Any

from sqlalchemy import Connection, Dialect, Row, Select, Table
from sqlalchemy.dialects import postgresql, sqlite

from headgate.model.job import Job
from headgate.store.sql.tables import jobs

Insert = postgresql.Insert | sqlite.Insert

#: Values in one statement, at most: SQLite takes 32,766 parameters, Postgres 65,535.
ROWS_MAX = 1000


def insert_into(dialect: Dialect, table: Table) -> Insert:
    """An INSERT that knows ON CONFLICT."""
    if dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


#: The columns of a job, in the order of the model's fields.
JOB_COLUMNS = tuple(jobs.c[name] for name in Job.__struct_fields__)


def to_job(row: Row[Any]) -> Job:
    """A row of JOB_COLUMNS as a job."""
    return Job(**dict(zip(Job.__struct_fields__, row, strict=True)))


def find_jobs(tx: Connection, query: Select[Any]) -> list[Job]:
    """The jobs that a query on JOB_COLUMNS finds."""
    return [to_job(row) for row in tx.execute(query)]
