"""The plans of users."""

from sqlalchemy import Connection, select

from headgate.store.sql.moment import Moment
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import users


def plan_of(tx: Connection, user_id: str) -> str | None:
    """The user's plan, if one was set."""
    return tx.execute(select(users.c.plan).where(users.c.id == user_id)).scalar_one_or_none()


def set_plan(tx: Connection, now: Moment, user_id: str, plan: str) -> None:
    """Store the user's plan."""
    insert = insert_into(tx.dialect, users).values(id=user_id, plan=plan, updated_at=now.at())
    news = {name: insert.excluded[name] for name in ("plan", "updated_at")}
    tx.execute(insert.on_conflict_do_update(index_elements=[users.c.id], set_=news))
