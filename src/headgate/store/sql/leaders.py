"""Leadership by a row: one holder at a time, with a token that goes up with every new holder."""

from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Text, and_, bindparam, case, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from headgate.ports.store import Leader
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import leaders


def lead(tx: Connection, now: Moment, name: str, *, holder: str, term: timedelta) -> int | None:
    """Stay leader, or become it where the seat is free or its term is over; the term's token."""
    asked = {"of_seat": name, "by_holder": holder, **now.binds(term=term)}
    token: int | None = tx.execute(_renew(server=now.server), asked).scalar_one_or_none()
    if token is None:
        first = _sit_down(tx.dialect, server=now.server)
        token = tx.execute(first, asked).scalar_one_or_none()
    return token


@cache
def _renew(*, server: bool) -> ReturningUpdate[Any]:
    now = instant(server=server)
    holder = bindparam("by_holder", type_=Text)
    mine = and_(leaders.c.holder == holder, leaders.c.until > now)
    free = or_(leaders.c.holder.is_(None), leaders.c.until <= now)
    return (
        update(leaders)
        .where(leaders.c.name == bindparam("of_seat"), or_(mine, free))
        .values(
            token=case((mine, leaders.c.token), else_=leaders.c.token + 1),
            holder=holder,
            until=instant(server=server, after="term"),
        )
        .returning(leaders.c.token)
    )


@cache
def _sit_down(dialect: Dialect, *, server: bool) -> ReturningInsert[Any]:
    """Take a seat that nobody has ever had."""
    return (
        insert_into(dialect, leaders)
        .values(
            name=bindparam("of_seat"),
            holder=bindparam("by_holder"),
            token=1,
            until=instant(server=server, after="term"),
        )
        .on_conflict_do_nothing()
        .returning(leaders.c.token)
    )


def resign(tx: Connection, leader: Leader) -> None:
    """Leave the seat free, if it is still ours."""
    tx.execute(
        update(leaders)
        .where(leaders.c.name == leader.name, leaders.c.token == leader.token)
        .values(holder=None)
    )


def still_leads(tx: Connection, leader: Leader) -> bool:
    """Whether nobody has led since; holds the row until the transaction ends, so it stays true."""
    query = select(leaders.c.token).where(leaders.c.name == leader.name).with_for_update()
    return tx.execute(query).scalar_one_or_none() == leader.token
