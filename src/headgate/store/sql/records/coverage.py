"""The coverage of a connection's history: which days are held, empty or failed."""

from collections.abc import Sequence
from datetime import date, datetime

from sqlalchemy import (
    ClauseElement,
    Connection,
    Dialect,
    FromClause,
    Integer,
    and_,
    literal_column,
    or_,
    select,
)

from headgate.model.job import Job
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.jobs.submission import NewJob
from headgate.store.sql.engine.many import BatchStatement, ValueAtPlace, by_place, insert_many
from headgate.store.sql.engine.port import SqlPort, reads
from headgate.store.sql.engine.statements import Insert
from headgate.store.sql.tables import coverage, jobs

_UPDATED = ("status", "records", "error", "job_id", "destination_connection_id", "updated_at")
_COLUMNS = tuple(coverage.c[name] for name in CoverageRow.__struct_fields__)


def _protect_held_days(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=coverage.primary_key.columns,
        set_={name: insert.excluded[name] for name in _UPDATED},
        where=or_(
            coverage.c.status != literal_column(f"'{DayStatus.HELD.value}'"),
            insert.excluded.status != literal_column(f"'{DayStatus.FAILED.value}'"),
        ),
    )


_store = insert_many(
    coverage, ("sync", "connection_id", "day", *_UPDATED), on_conflict=_protect_held_days
)


def store(
    tx: Connection, chunks: Sequence[tuple[Job, ChunkWork | None]], at: datetime | None
) -> None:
    """Store the coverage of each chunk's day. A held day stays held if a later read of it fails."""
    rows = [
        {
            "sync": job.sync,
            "connection_id": job.connection_id,
            "day": work.coverage.day,
            "status": work.coverage.status,
            "records": work.coverage.records,
            "error": work.coverage.error,
            "job_id": job.id,
            "destination_connection_id": job.destination_connection_id,
            "updated_at": at,
        }
        for job, work in chunks
        if work is not None and work.coverage is not None
    ]
    _store.run(tx, rows)


def list_days(
    tx: Connection, sync: str, connection_id: str, start: date, end: date
) -> list[CoverageRow]:
    """The coverage of the days from `start` to `end`."""
    query = (
        select(*_COLUMNS)
        .where(
            coverage.c.sync == sync,
            coverage.c.connection_id == connection_id,
            coverage.c.day.between(start, end),
        )
        .order_by(coverage.c.day)
    )
    return [CoverageRow(**row) for row in tx.execute(query).mappings()]


def covered_days(tx: Connection, new: Sequence[NewJob]) -> list[list[CoverageRow]]:
    """For each new job, the coverage of its days that went to the same destination account."""
    covered: list[list[CoverageRow]] = [[] for _ in new]
    names = [column.name for column in _COLUMNS]
    for place, *row in _covered.run(tx, [ValueAtPlace(*each) for each in enumerate(new)]):
        covered[place].append(CoverageRow(**dict(zip(names, row, strict=True))))
    return covered


def _select_covered(given: FromClause, dialect: Dialect) -> ClauseElement:
    account = coverage.c.destination_connection_id
    same = and_(
        coverage.c.sync == given.c.sync,
        coverage.c.connection_id == given.c.connection_id,
        coverage.c.day.between(given.c.start_date, given.c.end_date),
        account.is_not_distinct_from(given.c.destination_connection_id),
    )
    return select(given.c.place, *_COLUMNS).select_from(given).join(coverage, same)


_RANGE = ("sync", "connection_id", "start_date", "end_date", "destination_connection_id")
_covered = BatchStatement(
    by_place({name: jobs.c[name].type for name in _RANGE}),
    _select_covered,
    returns=[Integer(), *[column.type for column in _COLUMNS]],
)


def list_gaps(
    tx: Connection, job_id: str, sync: str, connection_id: str, *, limit: int
) -> list[CoverageRow]:
    """Days of the job that failed or are incomplete, the newest first."""
    query = (
        select(*_COLUMNS)
        .where(
            coverage.c.sync == sync,
            coverage.c.connection_id == connection_id,
            coverage.c.job_id == job_id,
            coverage.c.error.is_not(None),
        )
        .order_by(coverage.c.day.desc())
        .limit(limit)
    )
    return [CoverageRow(**row) for row in tx.execute(query).mappings()]


class SqlCoverage(SqlPort):
    """The coverage of histories in SQLite or Postgres."""

    list_days = reads(list_days)
    covered_days = reads(covered_days)
    list_gaps = reads(list_gaps)
