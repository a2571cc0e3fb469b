"""Connect attempts: users who are on a provider's consent page and have not come back yet."""

from datetime import timedelta

from sqlalchemy import Connection, delete, select

from headgate.ports.connections.store import ConnectAttempt
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import SqlPort, writes_timed
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.tables import connect_attempts

#: The most expired attempts that a new attempt deletes.
PRUNE_MAX = 100

_ATTEMPT = tuple(connect_attempts.c[name] for name in ConnectAttempt.__struct_fields__)


def begin(tx: Connection, now: Moment, attempt: ConnectAttempt, *, term: timedelta) -> None:
    """Store an attempt, and delete some that have expired."""
    old = (
        select(connect_attempts.c.state_hash)
        .where(connect_attempts.c.expires_at <= now.at())
        .limit(PRUNE_MAX)
    )
    tx.execute(delete(connect_attempts).where(connect_attempts.c.state_hash.in_(old)))
    values = {name: getattr(attempt, name) for name in ConnectAttempt.__struct_fields__}
    tx.execute(insert_into(tx.dialect, connect_attempts).values(**values, expires_at=now.at(term)))


def take(
    tx: Connection, now: Moment, state_hash: str, *, session_hash: str, user_id: str
) -> ConnectAttempt | None:
    """Delete and return an attempt in one statement, so that it is used once."""
    statement = (
        delete(connect_attempts)
        .where(
            connect_attempts.c.state_hash == state_hash,
            connect_attempts.c.session_hash == session_hash,
            connect_attempts.c.user_id == user_id,
            connect_attempts.c.expires_at > now.at(),
        )
        .returning(*_ATTEMPT)
    )
    row = tx.execute(statement).mappings().one_or_none()
    return None if row is None else ConnectAttempt(**row)


class SqlConnectAttempts(SqlPort):
    """Connect attempts in SQLite or Postgres."""

    begin = writes_timed(begin)
    take = writes_timed(take)
