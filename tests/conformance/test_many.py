"""A batch of any size is written whole, and exactly once."""

import pytest
from sqlalchemy import select

from headgate.store.sql import events
from headgate.store.sql.store import SqlStore
from headgate.store.sql.tables import job_events
from tests.stores import START


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 100, 127, 128, 129, 300, 1000])
async def test_every_row_of_a_batch_is_written_once(sql_store: SqlStore, count: int) -> None:
    # Given so many rows, with what JSON and SQL hold special in them
    told = [(f"job-{n}", START, 'it\'s "told" ? $1 ,', {"n": n}) for n in range(count)]

    # When they are written together
    await sql_store.database.write(lambda tx: events.append(tx, told))

    # Then each is there
    rows = await sql_store.database.read(
        lambda tx: tx.execute(
            select(job_events.c.job_id, job_events.c.at, job_events.c.kind, job_events.c.data)
        ).all()
    )
    assert sorted(map(tuple, rows), key=lambda row: row[3]["n"]) == told
