"""High-water marks: how far each sync has read for a connection. Only a job's success moves one."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, select

from headgate.base.encoding import Json
from headgate.model.job import Job
from headgate.model.states import JobState
from headgate.store.sql.engine.many import insert_many
from headgate.store.sql.engine.statements import Insert
from headgate.store.sql.tables import high_water_marks as marks


def _move(insert: Insert) -> Insert:
    return insert.on_conflict_do_update(
        index_elements=marks.primary_key.columns,
        set_={name: insert.excluded[name] for name in ("value", "job_id", "updated_at")},
    )


_store = insert_many(marks, marks.columns.keys(), on_conflict=_move)


def store(tx: Connection, jobs: Iterable[Job], at: datetime) -> None:
    """Store the marks of the jobs that succeeded and have one."""
    rows = [
        {
            "sync": job.sync,
            "connection_id": job.connection_id,
            "value": job.high_water,
            "job_id": job.id,
            "updated_at": at,
        }
        for job in jobs
        if job.state is JobState.SUCCESS and job.high_water is not None
    ]
    _store.run(tx, rows)


def find_mark(tx: Connection, sync: str, connection_id: str) -> Json:
    """The mark of a sync for a connection; None if there is none yet."""
    query = select(marks.c.value).where(
        marks.c.sync == sync, marks.c.connection_id == connection_id
    )
    return tx.execute(query).scalar_one_or_none()
