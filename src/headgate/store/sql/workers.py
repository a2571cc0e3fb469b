"""Worker processes: each has a row, which it refreshes while it is alive."""

from datetime import timedelta

from sqlalchemy import Connection, delete, select

from headgate.model.worker import Abilities, Worker
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.port import (
    SqlPort,
    autocommit_reads_timed,
    autocommits_timed,
    writes,
    writes_timed,
)
from headgate.store.sql.engine.statements import insert_into
from headgate.store.sql.tables import workers

_COLUMNS = tuple(workers.c[name] for name in Worker.__struct_fields__)


def refresh_worker(
    tx: Connection, now: Moment, worker_id: str, abilities: Abilities, *, term: timedelta
) -> None:
    """Store that the worker is alive, and what it can run."""
    insert = insert_into(tx.dialect, workers).values(
        id=worker_id, abilities=abilities, started_at=now.at(), expires_at=now.at(term)
    )
    news = {name: insert.excluded[name] for name in ("abilities", "expires_at")}
    tx.execute(insert.on_conflict_do_update(index_elements=[workers.c.id], set_=news))


def remove_worker(tx: Connection, worker_id: str) -> None:
    """Delete the row of a worker that has stopped."""
    tx.execute(delete(workers).where(workers.c.id == worker_id))


def live_workers(tx: Connection, now: Moment) -> list[Worker]:
    """The workers that refreshed their row in time, in the order of their start."""
    query = (
        select(*_COLUMNS)
        .where(workers.c.expires_at > now.at())
        .order_by(workers.c.started_at, workers.c.id)
    )
    return [Worker(**row) for row in tx.execute(query).mappings()]


def prune_workers(tx: Connection, now: Moment) -> int:
    """Delete the rows of workers that are gone; returns how many."""
    return tx.execute(delete(workers).where(workers.c.expires_at <= now.at())).rowcount


class SqlWorkers(SqlPort):
    """Worker processes in SQLite or Postgres."""

    refresh_worker = autocommits_timed(refresh_worker)
    remove_worker = writes(remove_worker)
    live_workers = autocommit_reads_timed(live_workers)
    prune_workers = writes_timed(prune_workers)
