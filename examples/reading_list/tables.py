"""The system's own table, and its SQL: plain functions that `app.read` and `app.write` run.

Its migrations lie beside this file. Whose a row is, is part of every statement.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Column, Connection, MetaData, Table, Text, delete, func, select

from headgate.toolkit.tables import UtcTime, insert_into

metadata = MetaData()
#: Its name begins with the system's: all systems share one database.
marks = Table(
    "reading_list_marks",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("article_id", Text, primary_key=True),
    Column("read_at", UtcTime, nullable=False),
)


def mark(tx: Connection, user_id: str, article_id: str, now: datetime) -> None:
    """Note that a user has read an article; the first time counts."""
    row = {"user_id": user_id, "article_id": article_id, "read_at": now}
    tx.execute(insert_into(tx.dialect, marks).values(row).on_conflict_do_nothing())


def marks_of(tx: Connection, user_id: str, article_ids: Sequence[str]) -> dict[str, datetime]:
    """Which of these articles a user has read, and when."""
    mine = (marks.c.user_id == user_id) & marks.c.article_id.in_(article_ids)
    rows = tx.execute(select(marks.c.article_id, marks.c.read_at).where(mine))
    return {row.article_id: row.read_at for row in rows}


def all_marks(tx: Connection, user_id: str) -> dict[str, datetime]:
    """What a user has read, and when."""
    query = select(marks.c.article_id, marks.c.read_at).where(marks.c.user_id == user_id)
    return {row.article_id: row.read_at for row in tx.execute(query)}


def forget(tx: Connection, user_id: str) -> None:
    """Delete all marks of a user."""
    tx.execute(delete(marks).where(marks.c.user_id == user_id))


def count(tx: Connection) -> int:
    """How many marks there are."""
    return tx.execute(select(func.count()).select_from(marks)).scalar_one()
