"""Leadership by a row: one holder at a time, with a token that goes up with every new holder."""

from datetime import timedelta

from sqlalchemy import Connection, and_, case, or_, select, update

from headgate.ports.store import Leader
from headgate.store.sql.moment import Moment
from headgate.store.sql.statements import insert_into
from headgate.store.sql.tables import leaders


def lead(tx: Connection, now: Moment, name: str, *, holder: str, term: timedelta) -> int | None:
    """Stay leader, or become it where the seat is free or its term is over; the term's token."""
    mine = and_(leaders.c.holder == holder, leaders.c.until > now.at())
    free = or_(leaders.c.holder.is_(None), leaders.c.until <= now.at())
    renewed = (
        update(leaders)
        .where(leaders.c.name == name, or_(mine, free))
        .values(
            token=case((mine, leaders.c.token), else_=leaders.c.token + 1),
            holder=holder,
            until=now.at(term),
        )
        .returning(leaders.c.token)
    )
    token = tx.execute(renewed).scalar_one_or_none()
    if token is None:
        first = (
            insert_into(tx.dialect, leaders)
            .values(name=name, holder=holder, token=1, until=now.at(term))
            .on_conflict_do_nothing()
            .returning(leaders.c.token)
        )
        token = tx.execute(first).scalar_one_or_none()
    return token


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
