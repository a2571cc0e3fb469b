"""The line: who waits for a worker, and in which order they are served.

**Fairness.** A job in line has a `turn`; the lowest goes first, and within a turn whoever joined
first. A job that joins takes the turn after its user's last one, or, where the user has none in
line, the turn after the one being served. So a user with ten thousand jobs takes ten thousand
turns, and a user who comes later with one is served in the next round: users share a lane, not
jobs. Nobody joins the turn being served, so it ends, whoever keeps coming back: nobody starves.

**Sleep.** A pending job whose `wake_at` lies ahead has no turn. The claim first gives turns to
those that have come due, then takes the lowest; both look only at what their partial index holds.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    ScalarSelect,
    Select,
    bindparam,
    func,
    literal_column,
    select,
    update,
)

from headgate.model.job import Lane
from headgate.model.states import JobState
from headgate.store.sql.many import Many, by_key
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.tables import ASLEEP, jobs

#: Sleepers that join the line in one claim, at most.
WAKE_MAX = 500

_OTHER = jobs.alias("other")
#: A place in line belongs to a lane and a user.
_Place = tuple[Lane, str]


def next_turn(lane: ColumnElement[str], user_id: ColumnElement[str]) -> ColumnElement[int]:
    """The turn that one job of this user takes when it joins."""
    return func.coalesce(_last_of(lane, user_id), _served(lane), literal_column("0")) + (
        literal_column("1")
    )


def next_turns(tx: Connection, joining: Sequence[_Place]) -> list[int]:
    """The turns that these take when they join one after another: each stands behind the last."""
    asked = [{"of_lane": lane, "of_user": user} for lane, user in dict.fromkeys(joining)]
    found: list[Any] = [row for result in _look.run(tx, asked) for row in result]
    last = {(Lane(lane), user): turn for lane, user, turn in found}
    turns: list[int] = []
    for place in joining:
        last[place] += 1
        turns.append(last[place])
    return turns


def wake_sleepers(tx: Connection, now: Moment, lane: Lane) -> None:
    """Give turns to those that have come due, in the order in which they did."""
    asked = {"of_lane": lane, **now.binds()}
    due = tx.execute(_due_sleepers(server=now.server), asked).all()
    if due:
        turns = next_turns(tx, [(lane, row.user_id) for row in due])
        _join.run(
            tx,
            [{"job_id": row.id, "new_turn": turn} for row, turn in zip(due, turns, strict=True)],
        )


@cache
def _due_sleepers(*, server: bool) -> Select[Any]:
    return (
        select(jobs.c.id, jobs.c.user_id)
        .where(
            ASLEEP,
            jobs.c.lane == bindparam("of_lane", type_=jobs.c.lane.type),
            jobs.c.wake_at <= instant(server=server),
        )
        .order_by(jobs.c.wake_at)
        .limit(WAKE_MAX)
        .with_for_update(skip_locked=True)
    )


def _in_line(chosen: ColumnElement[int], lane: ColumnElement[str]) -> Select[int]:
    other = _OTHER.c
    waiting = other.state == literal_column(f"'{JobState.PENDING.value}'")
    return select(chosen).where(waiting, other.turn.is_not(None), other.lane == lane)


def _served(lane: ColumnElement[str]) -> ScalarSelect[int]:
    """The turn being served: one step down an index."""
    return _in_line(func.min(_OTHER.c.turn), lane).scalar_subquery()


def _last_of(lane: ColumnElement[str], user_id: ColumnElement[str]) -> ScalarSelect[int]:
    """The user's last turn in line: one step down an index."""
    of_user = _in_line(func.max(_OTHER.c.turn), lane).where(_OTHER.c.user_id == user_id)
    return of_user.scalar_subquery()


def _build_look(given: FromClause, _: Dialect) -> ClauseElement:
    lane, user = given.c.of_lane, given.c.of_user
    last = func.coalesce(_last_of(lane, user), _served(lane), literal_column("0"))
    return select(lane, user, last).select_from(given)


def _build_join(given: FromClause, _: Dialect) -> ClauseElement:
    return update(jobs).where(jobs.c.id == given.c.job_id).values(turn=given.c.new_turn)


_look = Many(by_key({"of_lane": jobs.c.lane.type, "of_user": jobs.c.user_id.type}), _build_look)
_join = Many(by_key({"job_id": jobs.c.id.type, "new_turn": jobs.c.turn.type}), _build_join)
