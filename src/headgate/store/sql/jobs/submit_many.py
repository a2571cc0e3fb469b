"""Submission of many jobs at once: a few statements for a batch, however many jobs it has."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    Text,
    select,
)

from headgate.base.errors import Conflict, KeyReused
from headgate.model.lease import AT_ONCE
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitStatus
from headgate.store.sql.engine.many import BatchStatement, ValueAtPlace, by_place
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.jobs import queue
from headgate.store.sql.jobs import rows as new_jobs
from headgate.store.sql.jobs.rows import NewRow
from headgate.store.sql.tables import ACTIVE, jobs

_TRIES_MAX = 3


def submit_many(
    tx: Connection, now: Moment, wanted: Sequence[NewJob], *, syncs: Sequence[str]
) -> list[SubmitOutcome]:
    """Store these jobs as one submit after another would; the outcomes are in their order."""
    at = now.read(tx)
    outcomes: dict[int, SubmitOutcome] = {}
    left: Sequence[int] = range(len(wanted))
    for _ in range(_TRIES_MAX):
        outcomes.update(_decide(tx, wanted, left))
        created = [place for place in left if outcomes[place].status is SubmitStatus.CREATED]
        inserted = _insert(tx, at, [wanted[place] for place in created], syncs)
        if len(inserted) == len(created):
            return [outcomes[place] for place in range(len(wanted))]
        # Another transaction was first for some, and what was decided because of those is void.
        left = [place for place in left if wanted[place].id not in inserted]
    raise Conflict("other requests for the same syncs and connections keep winning; try again")


def _insert(
    tx: Connection, at: datetime, created: Sequence[NewJob], syncs: Sequence[str]
) -> set[str]:
    """Insert jobs, in the queue or asleep; jobs of a user take consecutive turns."""
    queued = [new for new in created if new.delay <= AT_ONCE and new.sync in syncs]
    turns = queue.next_turns(tx, [(new.lane, new.user_id) for new in queued], syncs)
    turn_of = {new.id: turn for new, turn in zip(queued, turns, strict=True)}
    rows = [NewRow(new, at, at + max(new.delay, AT_ONCE), turn_of.get(new.id)) for new in created]
    return new_jobs.insert(tx, rows)


# ---- what is in the way ------------------------------------------------------------------------


class _JobOfKey(NamedTuple):
    """The job that has a key, and the hash of its request."""

    job_id: str
    request_hash: str


def _decide(
    tx: Connection, wanted: Sequence[NewJob], places: Sequence[int]
) -> dict[int, SubmitOutcome]:
    """What becomes of each of these requests, given the stored jobs and the requests before it."""
    keyed, active = _read_keys(tx, wanted, places), _read_active(tx, wanted, places)
    outcomes: dict[int, SubmitOutcome] = {}
    for place in places:
        new = wanted[place]
        key, subject = (new.user_id, new.key), (new.sync, new.connection_id)
        if (same := keyed.get(key)) is not None:
            outcomes[place] = _outcome_of_key(new, same)
        elif (other := active.get(subject)) is not None:
            outcomes[place] = SubmitOutcome(SubmitStatus.ACTIVE, other)
        else:
            outcomes[place] = SubmitOutcome(SubmitStatus.CREATED, new.id)
            active[subject] = new.id
            if new.key is not None:
                keyed[key] = _JobOfKey(new.id, new.request_hash)
    return outcomes


def _outcome_of_key(new: NewJob, same: _JobOfKey) -> SubmitOutcome:
    if same.request_hash == new.request_hash:
        return SubmitOutcome(SubmitStatus.EXISTING, same.job_id)
    error = KeyReused(same.job_id)
    return SubmitOutcome(SubmitStatus.REFUSED, same.job_id, field="key", error=error)


def _read_keys(
    tx: Connection, wanted: Sequence[NewJob], places: Sequence[int]
) -> dict[tuple[str, str | None], _JobOfKey]:
    given = [
        ValueAtPlace(place, wanted[place]) for place in places if wanted[place].key is not None
    ]
    found: dict[tuple[str, str | None], _JobOfKey] = {}
    for place, job_id, request_hash in _keys.run(tx, given):
        found[wanted[place].user_id, wanted[place].key] = _JobOfKey(job_id, request_hash)
    return found


def _read_active(
    tx: Connection, wanted: Sequence[NewJob], places: Sequence[int]
) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    given = [ValueAtPlace(place, wanted[place]) for place in places]
    for place, job_id in _active.run(tx, given):
        found[wanted[place].sync, wanted[place].connection_id] = job_id
    return found


# By subqueries, not a join: each is one look-up in an index, whatever the planner knows of a table
# that is only just being filled. Of most requests there is nothing, and nothing is returned.


def _select_keys(given: FromClause, dialect: Dialect) -> ClauseElement:
    same = (jobs.c.user_id == given.c.user_id, jobs.c.key == given.c.key)
    return _found(given, [jobs.c.id, jobs.c.request_hash], same)


def _select_active(given: FromClause, dialect: Dialect) -> ClauseElement:
    same = (jobs.c.sync == given.c.sync, jobs.c.connection_id == given.c.connection_id)
    return _found(given, [jobs.c.id], (ACTIVE, *same))


def _found(
    given: FromClause, columns: Sequence[Column[str]], where: Sequence[ColumnElement[bool]]
) -> ClauseElement:
    """The places of which there is such a job, with these of its columns."""
    each = [select(one).where(*where).correlate(given).scalar_subquery() for one in columns]
    return select(given.c.place, *each).where(each[0].is_not(None))


_keys = BatchStatement(by_place({"user_id": Text(), "key": Text()}), _select_keys)
_active = BatchStatement(by_place({"sync": Text(), "connection_id": Text()}), _select_active)
