"""The queue: the order in which due jobs get a worker.

**Fairness.** A queued job has a `turn`; the lowest turn goes first, and within a turn the job that
joined first. A job that joins takes the turn after its user's last turn or, if the user has no
queued job, the turn after the one being served. So a user with ten thousand jobs takes ten thousand
turns, and a user who comes later with one job is served in the next turn: users share a lane, not
jobs. No job joins the turn being served, so that turn always ends, and nobody starves.

**One queue for each application.** Applications with different syncs may share a database. Each
serves its own syncs at its own speed, so turns are counted among those syncs alone, and every
function here takes them. A job of another sync stays asleep, and its own workers wake it. Two
applications that share some syncs count differently: while both run, as during a deploy that adds a
sync, jobs of one may go before jobs of the other.

**Sleep.** A pending job whose `wake_at` is in the future has no turn. A claim gives turns to the
sleeping jobs that are due. All statements read partial indexes, one sync at a time, so jobs of
other applications and jobs that are not due cost nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    Connection,
    Dialect,
    ScalarSelect,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.sql.selectable import Subquery

from headgate.model.job import Lane
from headgate.model.states import JobState
from headgate.store.sql.engine.moment import instant
from headgate.store.sql.engine.prepared import prepare
from headgate.store.sql.engine.statements import bind_texts, texts
from headgate.store.sql.tables import ASLEEP, in_states, jobs

#: The most sleeping jobs that join the queue in one claim.
WAKE_MAX = 500

OF_LANE: BindParameter[Any] = bindparam("of_lane", type_=jobs.c.lane.type)

_OTHER = jobs.alias("other")
_WAITING = (in_states(_OTHER, JobState.PENDING), _OTHER.c.turn.is_not(None))


def bind_syncs(syncs: Sequence[str]) -> dict[str, str]:
    """The parameters of statements that are built for so many syncs."""
    return {f"sync_{number}": sync for number, sync in enumerate(syncs)}


def for_each_sync(count: int, query: Callable[[BindParameter[str]], Select[Any]]) -> Subquery:
    """The rows that `query` finds for each of `count` syncs, as one UNION ALL.

    Each part reads its index from its first matching row to its last.
    """
    parts = [select(query(_sync(number)).subquery()) for number in range(count)]
    return union_all(*parts).subquery("each")


def _sync(number: int) -> BindParameter[str]:
    return bindparam(f"sync_{number}", type_=Text)


def next_turn(syncs: int, user_id: ColumnElement[str]) -> ColumnElement[int]:
    """The turn of a job of this user that joins the queue of the lane `OF_LANE`."""
    last = func.coalesce(_last_turn_of(syncs, user_id), _turn_served(syncs), literal_column("0"))
    return last + literal_column("1")


def next_turns(
    tx: Connection, joining: Sequence[tuple[Lane, str]], syncs: Sequence[str]
) -> list[int]:
    """The turns of jobs, given by lane and user, that join the queue one after another."""
    last: dict[tuple[Lane, str], int] = {}
    for lane in sorted({lane for lane, _ in joining}):
        users = sorted({user for of, user in joining if of is lane})
        binds = {"of_lane": lane, "users": bind_texts(tx.dialect, users), **bind_syncs(syncs)}
        query = prepare(_last_turns(tx.dialect, len(syncs)), tx.dialect)
        for user, turn in query.run(tx, binds):
            last[lane, user] = turn
    turns: list[int] = []
    for place in joining:
        last[place] += 1
        turns.append(last[place])
    return turns


def due_sleepers(syncs: int, *, server: bool) -> CTE:
    """The sleeping jobs that are due, locked, with the turns by which they join the queue."""

    def due(sync: BindParameter[str]) -> Select[Any]:
        return (
            select(jobs.c.id, jobs.c.user_id, jobs.c.wake_at)
            .where(
                ASLEEP,
                jobs.c.lane == OF_LANE,
                jobs.c.sync == sync,
                jobs.c.wake_at <= instant(server=server),
            )
            .order_by(jobs.c.wake_at)
            .limit(WAKE_MAX)
            .with_for_update(skip_locked=True)
        )

    # In separate CTEs, so that rows are locked once and numbered after that.
    found = for_each_sync(syncs, due)
    sleepers = select(found).order_by(found.c.wake_at).limit(WAKE_MAX).cte("sleepers")
    place = func.row_number().over(
        partition_by=sleepers.c.user_id, order_by=(sleepers.c.wake_at, sleepers.c.id)
    )
    turn = next_turn(syncs, sleepers.c.user_id) + place - literal_column("1")
    return select(sleepers.c.id, sleepers.c.wake_at, turn.label("turn")).cte("due")


def _turn_served(syncs: int) -> ScalarSelect[int]:
    """The turn being served, by one index look-up for each sync."""
    other = _OTHER.c
    first = for_each_sync(
        syncs,
        lambda sync: (
            select(func.min(other.turn).label("turn"))
            .select_from(_OTHER)
            .where(*_WAITING, other.lane == OF_LANE, other.sync == sync)
        ),
    )
    return select(func.min(first.c.turn)).scalar_subquery()


def _last_turn_of(syncs: int, user_id: ColumnElement[str]) -> ScalarSelect[int]:
    """The user's last turn, by one index look-up that skips other applications' jobs."""
    other = _OTHER.c
    of_user = (
        select(other.turn)
        .select_from(_OTHER)
        .where(
            *_WAITING,
            other.lane == OF_LANE,
            other.user_id == user_id,
            other.sync.in_([_sync(number) for number in range(syncs)]),
        )
        .order_by(other.turn.desc())
        .limit(1)
    )
    return of_user.correlate_except(_OTHER).scalar_subquery()


@cache
def _last_turns(dialect: Dialect, syncs: int) -> Select[Any]:
    users = texts(dialect, "users")
    last = func.coalesce(
        _last_turn_of(syncs, users.c.value), _turn_served(syncs), literal_column("0")
    )
    return select(users.c.value, last)
