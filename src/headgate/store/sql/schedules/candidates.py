"""Candidates: the connections, or the users, that a schedule gives jobs to or skips."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    ScalarSelect,
    Select,
    and_,
    func,
    null,
    select,
)

from headgate.model.candidate import Candidate
from headgate.model.states import JOB, JobState
from headgate.model.user import Preferences
from headgate.ports.schedules import CandidateQuery
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.tables import (
    ACTIVE,
    TICK_QUEUED,
    connections,
    in_states,
    jobs,
    tick_users,
    users,
)

_THERE = connections.alias("there")
_PAST = jobs.alias("past")


def find(
    tx: Connection, now: Moment, query: CandidateQuery, *, after: str | None, limit: int
) -> tuple[datetime, list[Candidate]]:
    """The time, and the candidates in the order of their connections' ids."""
    at = now.read(tx)
    return at, [_to_candidate(row) for row in tx.execute(_select(query, after, limit))]


def _select(query: CandidateQuery, after: str | None, limit: int) -> Select[Any]:
    rows: FromClause
    state: ColumnElement[Any]
    if query.source is None:
        connection_id, user_id, state, rows = users.c.id, users.c.id, null(), users
        found = select()
    else:
        connection_id, user_id, state = connections.c.id, connections.c.user_id, connections.c.state
        rows = connections.outerjoin(users, users.c.id == connections.c.user_id)
        found = select().where(connections.c.source == query.source)
    if after is not None:
        found = found.where(connection_id > after)
    active = and_(jobs.c.sync == query.sync, jobs.c.connection_id == connection_id, ACTIVE)
    columns = (
        user_id.label("user_id"),
        connection_id.label("connection_id"),
        state.label("state"),
        users.c.plan,
        users.c.last_login_at,
        users.c.paused_at,
        users.c.preferences,
        jobs.c.id.label("active_job_id"),
        _last_tick(query, connection_id).label("last_tick"),
        *_destination(query, user_id),
        *_ages(query, connection_id),
    )
    joined = found.add_columns(*columns).select_from(rows.outerjoin(jobs, active))
    return joined.order_by(connection_id).limit(limit)


def _destination(query: CandidateQuery, user_id: ColumnElement[str]) -> list[ColumnElement[Any]]:
    """The user's only connection at the destination, its state, and how many there are."""
    if query.destination is None:
        names = ("destinations", "destination_connection_id", "destination_state")
        return [null().label(name) for name in names]

    def there(what: ColumnElement[Any], name: str) -> ColumnElement[Any]:
        mine = and_(_THERE.c.user_id == user_id, _THERE.c.source == query.destination)
        return select(what).where(mine).scalar_subquery().label(name)

    return [
        there(func.count(_THERE.c.id), "destinations"),
        there(func.min(_THERE.c.id), "destination_connection_id"),
        there(func.min(_THERE.c.state, type_=_THERE.c.state.type), "destination_state"),
    ]


def _last_tick(query: CandidateQuery, connection_id: ColumnElement[str]) -> ScalarSelect[Any]:
    return (
        select(func.max(tick_users.c.tick))
        .where(
            tick_users.c.schedule == query.schedule,
            tick_users.c.connection_id == connection_id,
            TICK_QUEUED,
        )
        .scalar_subquery()
    )


def _ages(query: CandidateQuery, connection_id: ColumnElement[str]) -> list[ColumnElement[Any]]:
    """When a job last succeeded, and when one last ended, from the end of one index."""
    if not query.ages:
        return [null().label("succeeded_at"), null().label("ended_at")]
    ended = (
        select(_PAST.c.finished_at)
        .where(
            _PAST.c.sync == query.sync,
            _PAST.c.connection_id == connection_id,
            in_states(_PAST, *JOB.terminal),
        )
        .order_by(_PAST.c.finished_at.desc())
        .limit(1)
    )
    succeeded = ended.where(in_states(_PAST, JobState.SUCCESS))
    return [
        succeeded.scalar_subquery().label("succeeded_at"),
        ended.scalar_subquery().label("ended_at"),
    ]


def _to_candidate(row: Row[Any]) -> Candidate:
    fields = dict(row._mapping)
    paused_at, preferences = fields.pop("paused_at"), fields.pop("preferences")
    # A connection that was imported may be of a user without a row.
    return Candidate(
        **fields, paused=paused_at is not None, preferences=preferences or Preferences()
    )
