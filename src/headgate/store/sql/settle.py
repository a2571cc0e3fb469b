"""The one guarded write: every change of a job's state goes through `settle`.

A batch costs the same few statements however many jobs are in it: lock and read the rows, decide
which changes still hold, write jobs, events, records and coverage, each in one go. What a chunk
brought and the cursor that says so are therefore in one transaction, always.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import (
    ClauseElement,
    Connection,
    Dialect,
    FromClause,
    Select,
    Text,
    any_,
    bindparam,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.base.errors import ActiveJobExists
from headgate.model.change import Change, meet
from headgate.model.job import Job
from headgate.model.states import JOB, JobState
from headgate.ports.store import Work
from headgate.store.sql import coverage, events, high_water, line, records
from headgate.store.sql.jobs import active_job_of
from headgate.store.sql.many import Given, Many
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.tables import jobs

Settlement = tuple[Change, Work | None]

#: Columns that every change writes: somebody else may have written them meanwhile.
_ALWAYS = (
    "state",
    "reason",
    "wake_at",
    "hold",
    "token",
    "lease_until",
    "updated_at",
    "finished_at",
)
#: Columns that only the holder of the claim writes. The fence has shown that they are as it read
#: them, so only those that changed are written.
_IF_CHANGED = {
    name: attrgetter(name)
    for name in (
        "error",
        "provider",
        "cursor",
        "high_water",
        "steps",
        "attempts",
        "recent_errors",
        "crashes",
        "deferrals",
        "pauses",
        "probe",
        "progress",
        "summary",
        "attempted_at",
    )
}


class Seen(msgspec.Struct):
    """A row as it stands under our lock."""

    state: JobState
    token: int
    steps: int
    hold: bool
    lease_until: datetime | None
    now: datetime


class Written:
    """A row as it is to be written."""

    __slots__ = ("changed", "job", "seen", "turn")

    def __init__(self, job: Job, before: Job, seen: Seen) -> None:
        """Write `job`, over the row that was read as `before` and stands as `seen`."""
        self.job = job
        self.seen = seen
        #: Its place in line, where it has one.
        self.turn: int | None = None
        #: The columns beyond those that are always written.
        self.changed = tuple(
            [name for name, of in _IF_CHANGED.items() if of(before) != of(job)],
        )

    @property
    def joins_line(self) -> bool:
        """Whether it is due at once."""
        job = self.job
        return (
            job.state is JobState.PENDING
            and job.wake_at is not None
            and job.wake_at <= self.seen.now
        )


@cache
def _write_job(changed: tuple[str, ...]) -> Many:
    """The guarded write for changes of these columns: a few shapes come up again and again."""
    written = (*_ALWAYS, *changed)

    def build(rows: FromClause, _: Dialect) -> ClauseElement:
        return (
            update(jobs)
            .where(
                jobs.c.id == rows.c.seen_id,
                jobs.c.token == rows.c.seen_token,
                jobs.c.state == rows.c.seen_state,
            )
            .values(turn=rows.c.new_turn, **{name: rows.c[name] for name in written})
        )

    given = {name: Given(jobs.c[name].type, attrgetter(f"job.{name}")) for name in written}
    given["new_turn"] = Given(jobs.c.turn.type, attrgetter("turn"))
    given["seen_id"] = Given(jobs.c.id.type, attrgetter("job.id"))
    given["seen_token"] = Given(jobs.c.token.type, attrgetter("seen.token"))
    given["seen_state"] = Given(jobs.c.state.type, attrgetter("seen.state"))
    return Many(given, build)


def settle(tx: Connection, now: Moment, batch: Sequence[Settlement]) -> list[Job | None]:
    """Apply the changes that still hold, with what their chunks brought; None where one lost."""
    results: list[Job | None] = [None] * len(batch)
    for places in _each_job_once([change.after.id for change, _ in batch]):
        for place, job in _settle_together(tx, now, [(place, *batch[place]) for place in places]):
            results[place] = job
    return results


def _each_job_once(job_ids: Sequence[str]) -> Iterator[Sequence[int]]:
    """Places to settle together. A job's second change meets what the first made of it."""
    if len(set(job_ids)) == len(job_ids):
        yield range(len(job_ids))
        return
    rounds: list[list[int]] = []
    times: Counter[str] = Counter()
    for place, job_id in enumerate(job_ids):
        if times[job_id] == len(rounds):
            rounds.append([])
        rounds[times[job_id]].append(place)
        times[job_id] += 1
    yield from rounds


def _settle_together(
    tx: Connection, now: Moment, batch: Sequence[tuple[int, Change, Work | None]]
) -> list[tuple[int, Job]]:
    rows = _lock(tx, now, sorted(change.after.id for _, change, _ in batch))
    kept: list[tuple[int, Change, Work | None, Seen]] = []
    for place, change, work in batch:
        seen = rows.get(change.after.id)
        met = _met(change, seen)
        if met is not None and seen is not None:
            _refuse_second_active(tx, met)
            kept.append((place, met, work, seen))
    if not kept:
        return []
    at = kept[0][3].now
    worked = [(met.after, work) for _, met, work, _ in kept]
    counts = records.store(tx, worked, at)
    written = [
        Written(_become(met, seen, counted), met.before, seen)
        for (_, met, _, seen), counted in zip(kept, counts, strict=True)
    ]
    _write_jobs(tx, written)
    coverage.store(tx, worked, at)
    high_water.store(tx, [each.job for each in written], at)
    events.append(tx, [each for _, met, work, _ in kept for each in _told(met, work, at)])
    return [(kept_one[0], each.job) for kept_one, each in zip(kept, written, strict=True)]


def _told(change: Change, work: Work | None, at: datetime) -> Iterator[events.Told]:
    """What the source tells of the chunk, then what the change tells of the job."""
    for event in () if work is None else work.events:
        yield change.after.id, at, event.kind, event.data
    yield change.after.id, at, change.event, change.data


def _write_jobs(tx: Connection, written: Sequence[Written]) -> None:
    """The rows, those that change the same columns together."""
    joining = [each for each in written if each.joins_line]
    turns = line.next_turns(tx, [(each.job.lane, each.job.user_id) for each in joining])
    for each, turn in zip(joining, turns, strict=True):
        each.turn = turn
    alike: dict[tuple[str, ...], list[Written]] = {}
    for each in written:
        alike.setdefault(each.changed, []).append(each)
    for changed, rows in alike.items():
        _write_job(changed).run(tx, rows)


def fence_holds(change: Change, seen: Seen) -> bool:
    """Whether the claim that the change was made under is still the row's."""
    return (
        seen.token == change.token
        and seen.steps == change.steps
        and (change.lease_seen is None or seen.lease_until == change.lease_seen)
    )


def _met(change: Change, seen: Seen | None) -> Change | None:
    if seen is None or not fence_holds(change, seen):
        return None
    return meet(change, seen.state, hold=seen.hold)


def _lock(tx: Connection, now: Moment, ids: Sequence[str]) -> dict[str, Seen]:
    query = _locked(server=now.server, postgres=tx.dialect.name == "postgresql")
    rows = tx.execute(query, {"ids": ids, **now.binds()}).all()
    return {row[0]: Seen(*row[1:]) for row in rows}


@cache
def _locked(*, server: bool, postgres: bool) -> Select[Any]:
    # An array is one parameter, whatever its length; a list of them is a new statement each time.
    one_of = (
        jobs.c.id == any_(bindparam("ids", type_=ARRAY(Text)))
        if postgres
        else jobs.c.id.in_(bindparam("ids", expanding=True))
    )
    return (
        select(
            jobs.c.id,
            jobs.c.state,
            jobs.c.token,
            jobs.c.steps,
            jobs.c.hold,
            jobs.c.lease_until,
            instant(server=server).label("now"),
        )
        .where(one_of)
        .order_by(jobs.c.id)
        .with_for_update()
    )


def _keeps_claim(change: Change) -> bool:
    return change.edge.target in (JobState.RUNNING, JobState.CANCELLING)


def _goes_on(change: Change) -> bool:
    return change.edge.name == "advance" and change.hold is None


def _hold_after(change: Change, seen: Seen) -> bool:
    return _keeps_claim(change) and (seen.hold if change.hold is None else change.hold)


def _become(change: Change, seen: Seen, counted: records.Counts) -> Job:
    """The job as the row now says, with what only the store knows filled in."""
    wake_at = None if change.wake is None else seen.now + change.wake
    ended = change.edge.target in JOB.terminal
    summary = change.after.summary
    if counted:
        summary = msgspec.structs.replace(
            summary,
            inserted=summary.inserted + counted.inserted,
            updated=summary.updated + counted.updated,
            unchanged=summary.unchanged + counted.unchanged,
        )
    return msgspec.structs.replace(
        change.after,
        summary=summary,
        wake_at=wake_at,
        hold=_hold_after(change, seen),
        token=seen.token + change.fences,
        lease_until=seen.lease_until if _keeps_claim(change) else None,
        updated_at=seen.now,
        # The holder that goes on begins its next chunk now.
        attempted_at=seen.now if _goes_on(change) else change.after.attempted_at,
        finished_at=seen.now if ended else None,
    )


def _refuse_second_active(tx: Connection, change: Change) -> None:
    """A failed job may not come back beside a newer one.

    The unique index has the last word; this look says which job is in the way.
    """
    if change.edge.name == "retry":
        other = active_job_of(tx, change.after)
        if other is not None:
            raise ActiveJobExists(other)
