"""Lists of jobs, newest first, whatever is asked for.

Jobs are of a **kind**: a sync, a state and a mode. The indexes for lists have the jobs of every
kind, of all users, of one user or of one connection, in the order of their ids. A list is merged
from the newest jobs of each kind that it asks for, so it reads no others: a state that no job is in
costs a few look-ups, however many jobs there are.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    Label,
    Select,
    Text,
    literal,
    literal_column,
    select,
    true,
    union_all,
)

from headgate.model.job import Job, Mode
from headgate.model.states import JOB, JobState
from headgate.ports.jobs.store import JobFilter
from headgate.store.sql.jobs.settle import TABLE
from headgate.store.sql.tables import in_states, jobs

Conditions = Sequence[ColumnElement[bool]]

_EACH = jobs.alias("each_job")
_ENDED = in_states(_EACH, *JOB.terminal)
_ACTIVE = in_states(_EACH, *JOB.active)


def list_jobs(
    tx: Connection, job_filter: JobFilter, *, limit: int, before: str | None = None
) -> list[Job]:
    """Jobs, newest first, because ids sort by the time of their creation."""
    older = [] if before is None else [_EACH.c.id < before]
    # Written into the statement: a plan that does not know the limit expects a tenth of all jobs.
    most: ColumnElement[int] = literal_column(str(int(limit)))
    found: list[Select[Any]] = (
        [select(_EACH.c.id).where(*older)]
        if job_filter == JobFilter()
        else _matching_ids(tx.dialect, job_filter, older, most)
    )
    ids = select(union_all(*found).subquery("found"))
    newest = ids.order_by(ids.selected_columns.id.desc()).limit(most).subquery("newest")
    query = select(*TABLE.columns).join(newest, newest.c.id == jobs.c.id)
    return TABLE.find(tx, query.order_by(jobs.c.id.desc()))


def _matching_ids(
    dialect: Dialect, job_filter: JobFilter, older: Conditions, most: ColumnElement[int]
) -> list[Select[Any]]:
    """The ids of jobs that match, at least the newest `most` of them."""
    user_id, connection_id = job_filter.user_id, job_filter.connection_id
    states = [each for each in JOB.states if not job_filter.states or each in job_filter.states]
    modes = list(Mode) if job_filter.mode is None else [job_filter.mode]
    of_user = [] if user_id is None else [_EACH.c.user_id == user_id]
    if connection_id is None:
        syncs = _syncs(job_filter.sync, of_user)
        return [_newest_of_each(dialect, syncs, states, modes, [*of_user, *older], most)]
    syncs, also = _syncs(job_filter.sync), [_EACH.c.connection_id == connection_id]
    also += [*of_user, *older]
    found: list[Select[Any]] = []
    if ended := [each for each in states if each in JOB.terminal]:
        found.append(_newest_of_each(dialect, syncs, ended, modes, [*also, _ENDED], most))
    if active := [each for each in states if each in JOB.active]:
        # The index for lists has ended jobs alone. Of each sync, one job at most is active.
        now = select(_EACH.c.id).join(syncs, syncs.c.sync == _EACH.c.sync).where(_ACTIVE, *also)
        found.append(now.where(_EACH.c.state.in_(active), _EACH.c.mode.in_(modes)))
    return found


def _syncs(sync: str | None, where: Conditions = ()) -> FromClause:
    """The sync, or all syncs of these jobs, by one look-up in an index for each of them."""
    first = select(_EACH.c.sync).where(*where).order_by(_EACH.c.sync).limit(literal_column("1"))
    if sync is not None:
        return select(literal(sync, Text).label("sync")).subquery("syncs")
    begin = first.where(_EACH.c.sync > literal_column("''")).scalar_subquery()
    syncs = select(begin.label("sync")).cte("syncs", recursive=True)
    following = first.where(_EACH.c.sync > syncs.c.sync).correlate(syncs).scalar_subquery()
    return syncs.union_all(select(following).where(syncs.c.sync.is_not(None)))


def _newest_of_each(
    dialect: Dialect,
    syncs: FromClause,
    states: Sequence[JobState],
    modes: Sequence[Mode],
    where: Conditions,
    most: ColumnElement[int],
) -> Select[Any]:
    """The newest jobs of each kind, read backwards from the end of its range in an index."""
    kinds = union_all(
        *(
            select(_word(state, "state"), _word(mode, "mode"))
            for state, mode in product(states, modes)
        )
    ).subquery("kinds")
    newest = (
        select(_EACH.c.id)
        .where(
            _EACH.c.sync == syncs.c.sync,
            _EACH.c.state == kinds.c.state,
            _EACH.c.mode == kinds.c.mode,
            *where,
        )
        .order_by(_EACH.c.id.desc())
        .limit(most)
        .correlate(syncs, kinds)
    )
    every = syncs.join(kinds, true())
    if dialect.name == "postgresql":
        lateral = newest.lateral("of_kind")
        return select(lateral.c.id).select_from(every.join(lateral, true()))
    # SQLite has no LATERAL, and Postgres would walk over all jobs here.
    return select(jobs.c.id).select_from(every.join(jobs, jobs.c.id.in_(newest)))


def _word(word: StrEnum, column: str) -> Label[Any]:
    return literal_column(f"'{word.value}'", jobs.c[column].type).label(column)
