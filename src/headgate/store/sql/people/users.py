"""Users: their plans, logins, preferences and pauses. A row is made when it is first needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, not_, or_, select, update

from headgate.base.errors import NotFound
from headgate.model.user import LOGIN_EVERY, Preferences, User
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import (
    SqlPort,
    autocommits_timed,
    reads,
    reads_timed,
    writes_timed,
)
from headgate.store.sql.engine.statements import ROWS_MAX, Insert, insert_into
from headgate.store.sql.tables import users

_USER = tuple(users.c[name] for name in User.__struct_fields__)


def get(tx: Connection, user_id: str) -> User:
    """The user; NotFound if Headgate does not know them yet."""
    row = tx.execute(select(*_USER).where(users.c.id == user_id)).one_or_none()
    return _found(row, user_id)


def list_users(tx: Connection, *, limit: int, after: str | None = None) -> list[User]:
    """Users in the order of their ids."""
    query = select(*_USER).order_by(users.c.id).limit(limit)
    if after is not None:
        query = query.where(users.c.id > after)
    return [_to_user(row) for row in tx.execute(query)]


def plan_of(tx: Connection, user_id: str) -> str | None:
    """The user's plan, if one was set."""
    return tx.execute(select(users.c.plan).where(users.c.id == user_id)).scalar_one_or_none()


def plans_of(tx: Connection, user_ids: Sequence[str]) -> dict[str, str]:
    """The plans of these users, by user."""
    plans: dict[str, str] = {}
    for begin in range(0, len(user_ids), ROWS_MAX):
        query = select(users.c.id, users.c.plan).where(
            users.c.id.in_(user_ids[begin : begin + ROWS_MAX]), users.c.plan.is_not(None)
        )
        plans.update((user_id, plan) for user_id, plan in tx.execute(query))
    return plans


def set_plan(tx: Connection, now: Moment, user_id: str, plan: str) -> User:
    """Store the user's plan."""
    _make(tx, now, user_id)
    return _found(_change(tx, now, users.c.id == user_id, plan=plan), user_id)


def set_preferences(tx: Connection, now: Moment, user_id: str, changes: Mapping[str, Any]) -> User:
    """Change these of the user's preferences."""
    _make(tx, now, user_id)
    # The row is locked first, so that of two who change different fields neither is lost.
    query = select(users.c.preferences).where(users.c.id == user_id).with_for_update()
    before: Preferences = tx.execute(query).scalar_one()
    after = msgspec.structs.replace(before, **changes)
    return _found(_change(tx, now, users.c.id == user_id, preferences=after), user_id)


def pause(
    tx: Connection, now: Moment, user_id: str, *, by: str, reason: str | None = None
) -> tuple[User, bool]:
    """Pause the user's schedules; who paused them first stays."""
    running = and_(users.c.id == user_id, users.c.paused_at.is_(None))
    values = {"paused_at": now.at(), "paused_by": by, "pause_reason": reason}
    changed = _change(tx, now, running, **values)
    return (get(tx, user_id), False) if changed is None else (_to_user(changed), True)


def resume(tx: Connection, now: Moment, user_id: str) -> tuple[User, bool]:
    """Resume the user's schedules."""
    paused = and_(users.c.id == user_id, users.c.paused_at.is_not(None))
    values = {"paused_at": None, "paused_by": None, "pause_reason": None}
    changed = _change(tx, now, paused, **values)
    return (get(tx, user_id), False) if changed is None else (_to_user(changed), True)


def email_of(tx: Connection, user_id: str) -> str | None:
    """Where notifications for the user go; None if they have no address, or want none."""
    query = select(users.c.preferences).where(users.c.id == user_id)
    found: Preferences | None = tx.execute(query).scalar_one_or_none()
    return found.email if found is not None and found.notify else None


# ---- logins ------------------------------------------------------------------------------------


def is_login_due(tx: Connection, now: Moment, user_id: str) -> bool:
    """Whether a login of the user would be written now; it is also if they have no row."""
    query = select(users.c.id).where(users.c.id == user_id, not_(_login_is_due(now)))
    return tx.execute(query).one_or_none() is None


def write_login(tx: Connection, now: Moment, user_id: str) -> bool:
    """Write that the user is here, unless that was written a short time ago."""
    return _upsert_login(tx, now, user_id, if_true=_login_is_due(now))


def connect(tx: Connection, now: Moment, user_id: str, *, in_person: bool) -> None:
    """Make the row of a user who connects; it counts as their login if they have none yet."""
    never = users.c.last_login_at.is_(None)
    _upsert_login(tx, now, user_id, if_true=_login_is_due(now) if in_person else never)


def _upsert_login(
    tx: Connection, now: Moment, user_id: str, *, if_true: ColumnElement[bool]
) -> bool:
    insert = _new_row(tx, now, user_id).values(last_login_at=now.at())
    statement = insert.on_conflict_do_update(
        index_elements=[users.c.id],
        set_={name: insert.excluded[name] for name in ("last_login_at", "updated_at")},
        where=if_true,
    )
    return tx.execute(statement.returning(users.c.id)).one_or_none() is not None


def _login_is_due(now: Moment) -> ColumnElement[bool]:
    last = users.c.last_login_at
    return or_(last.is_(None), last <= now.at(-LOGIN_EVERY))


# ---- parts of statements -----------------------------------------------------------------------


def _new_row(tx: Connection, now: Moment, user_id: str) -> Insert:
    return insert_into(tx.dialect, users).values(
        id=user_id, preferences=Preferences(), created_at=now.at(), updated_at=now.at()
    )


def _make(tx: Connection, now: Moment, user_id: str) -> None:
    """Make the user's row, if there is none: the application may tell of them before they come."""
    tx.execute(_new_row(tx, now, user_id).on_conflict_do_nothing())


def _change(
    tx: Connection, now: Moment, where: ColumnElement[bool], **values: Any
) -> Row[Any] | None:
    statement = update(users).where(where).values(**values, updated_at=now.at()).returning(*_USER)
    return tx.execute(statement).one_or_none()


def _found(row: Row[Any] | None, user_id: str) -> User:
    if row is None:
        raise NotFound(f"there is no user {user_id!r}")
    return _to_user(row)


def _to_user(row: Row[Any]) -> User:
    return User(**dict(zip(User.__struct_fields__, row, strict=True)))


# ---- the port ----------------------------------------------------------------------------------


class SqlUsers(SqlPort):
    """Users in SQLite or Postgres."""

    get = reads(get)
    list_users = reads(list_users)
    plan_of = reads(plan_of)
    plans_of = reads(plans_of)
    set_plan = writes_timed(set_plan)
    set_preferences = writes_timed(set_preferences)
    pause = writes_timed(pause)
    resume = writes_timed(resume)
    email_of = reads(email_of)
    is_login_due = reads_timed(is_login_due)
    write_login = autocommits_timed(write_login)
