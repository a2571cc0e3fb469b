"""The one guarded write: every change of a job's state goes through `settle`.

A batch costs the same few statements however many jobs are in it: lock and read the rows, decide
which changes still hold, write jobs, events, records and coverage, each in one go. What a chunk
brought and the cursor that says so are therefore in one transaction, always.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, bindparam, select, update

from headgate.base.errors import ActiveJobExists
from headgate.model.change import Change, meet
from headgate.model.job import Job
from headgate.model.states import JOB, JobState
from headgate.ports.store import Work
from headgate.store.sql import coverage, events, records
from headgate.store.sql.jobs import active_job_of, turn_if_in_line
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.prepared import Prepared
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
_IF_CHANGED = (
    "error",
    "cursor",
    "steps",
    "attempts",
    "recent_errors",
    "crashes",
    "deferrals",
    "pauses",
    "probe",
    "progress",
    "summary",
)


@cache
def _write_job(changed: tuple[str, ...]) -> Prepared:
    """The guarded write for changes of these columns: a few shapes come up again and again."""
    return Prepared(
        update(jobs)
        .where(
            jobs.c.id == bindparam("seen_id"),
            jobs.c.token == bindparam("seen_token"),
            jobs.c.state == bindparam("seen_state"),
        )
        .values(turn=turn_if_in_line, **{name: bindparam(name) for name in _ALWAYS + changed})
    )


class Seen(msgspec.Struct):
    """A row as it stands under our lock."""

    state: JobState
    token: int
    steps: int
    hold: bool
    lease_until: datetime | None
    now: datetime


def settle(tx: Connection, now: Moment, batch: Sequence[Settlement]) -> list[Job | None]:
    """Apply the changes that still hold, with what their chunks brought; None where one lost."""
    rows = _lock(tx, now, sorted({change.after.id for change, _ in batch}))
    #: Two changes of one job in one batch: the second meets what the first made of it, in order.
    doubled = len(rows) < len(batch)
    kept: list[tuple[int, Change, Work | None, Seen]] = []
    for place, (change, work) in enumerate(batch):
        seen = rows.get(change.after.id)
        met = _met(change, seen)
        if met is None or seen is None:
            continue
        _refuse_second_active(tx, met)
        kept.append((place, met, work, seen))
        if doubled:
            rows[change.after.id] = _seen_after(met, seen)

    counts = records.store(tx, [(met.after, work) for _, met, work, _ in kept], _time(rows))
    results: list[Job | None] = [None] * len(batch)
    writes: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for (place, met, _, seen), counted in zip(kept, counts, strict=True):
        job = results[place] = _become(met, seen, counted)
        changed = tuple(
            name for name in _IF_CHANGED if getattr(met.before, name) != getattr(job, name)
        )
        writes.append((changed, _row(job, seen, changed)))
    if kept:
        if not doubled:
            writes.sort(key=itemgetter(0))
        for changed, rows_alike in groupby(writes, itemgetter(0)):
            _write_job(changed).run(tx, [row for _, row in rows_alike])
        coverage.store(tx, [(met.after, work) for _, met, work, _ in kept], _time(rows))
        events.append(
            tx, [(met.after.id, seen.now, met.event, met.data) for _, met, _, seen in kept]
        )
    return results


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
    rows = tx.execute(_locked(server=now.server), {"ids": ids, **now.binds()})
    return {row[0]: Seen(*row[1:]) for row in rows}


@cache
def _locked(*, server: bool) -> Select[Any]:
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
        .where(jobs.c.id.in_(bindparam("ids", expanding=True)))
        .order_by(jobs.c.id)
        .with_for_update()
    )


def _time(rows: dict[str, Seen]) -> datetime | None:
    return next((seen.now for seen in rows.values()), None)


def _keeps_claim(change: Change) -> bool:
    return change.edge.target in (JobState.RUNNING, JobState.CANCELLING)


def _hold_after(change: Change, seen: Seen) -> bool:
    return _keeps_claim(change) and (seen.hold if change.hold is None else change.hold)


def _seen_after(change: Change, seen: Seen) -> Seen:
    return Seen(
        state=change.edge.target,
        token=seen.token + change.fences,
        steps=change.after.steps,
        hold=_hold_after(change, seen),
        lease_until=seen.lease_until if _keeps_claim(change) else None,
        now=seen.now,
    )


def _become(change: Change, seen: Seen, counted: records.Counts) -> Job:
    """The job as the row now says, with what only the store knows filled in."""
    wake = change.wake
    wake_at = seen.now + wake if isinstance(wake, timedelta) else wake
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
        finished_at=seen.now if ended else None,
    )


def _row(job: Job, seen: Seen, changed: tuple[str, ...]) -> dict[str, Any]:
    row = {name: getattr(job, name) for name in _ALWAYS + changed}
    row["in_line"] = (
        job.state is JobState.PENDING and job.wake_at is not None and job.wake_at <= seen.now
    )
    row["seen_id"] = job.id
    row["seen_token"] = seen.token
    row["seen_state"] = seen.state
    return row


def _refuse_second_active(tx: Connection, change: Change) -> None:
    """A failed job may not come back beside a newer one.

    The unique index has the last word; this look says which job is in the way.
    """
    if change.edge.name == "retry":
        other = active_job_of(tx, change.after)
        if other is not None:
            raise ActiveJobExists(other)
