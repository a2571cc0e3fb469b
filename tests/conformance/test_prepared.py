"""Prepared statements: the same values, errors and listeners as by the usual way."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, event, insert, literal, select
from sqlalchemy.exc import DBAPIError

from headgate.base.errors import StoreError
from headgate.model.job import JobParams, Lane
from headgate.store.sql.engine.prepared import PreparedStatement, prepare
from headgate.store.sql.jobs import events
from headgate.store.sql.tables import job_events, jobs
from tests.store_bundles import SqlStores
from tests.stores import START, submit_one


async def test_values_are_converted_in_both_directions_as_by_sqlalchemy(
    sql_store: SqlStores,
) -> None:
    # Given a job, and a statement with a time, a word of an enum and JSON in both directions
    job = await submit_one(sql_store, params=JobParams(options={"a": [1, "b"]}), lane=Lane.HOT)
    since = bindparam("since", type_=jobs.c.created_at.type)
    lane = bindparam("wanted", type_=jobs.c.lane.type)
    statement = select(jobs, literal("fixed"), since).where(jobs.c.lane == lane)
    binds = {"since": START - timedelta(days=1), "wanted": Lane.HOT}

    # When it is run in both ways
    def both(tx: Connection) -> tuple[list[Any], list[Any]]:
        usual = [tuple(row) for row in tx.execute(statement, binds)]
        return usual, [tuple(row) for row in prepare(statement, tx.dialect).run(tx, binds)]

    usual, prepared = await sql_store.database.read(both)

    # Then the rows are the same, and so is the job as it was submitted
    assert prepared == usual
    assert len(prepared) == 1
    assert job == await sql_store.jobs.get(job.id)


async def test_an_error_is_wrapped_and_its_operation_undone(sql_store: SqlStores) -> None:
    # Given an event, and an operation that writes another and then breaks a rule
    statement = insert(job_events).values(job_id=bindparam("job"))
    await sql_store.database.write(lambda tx: events.append(tx, [("one", START, "told", {})]))
    seen: list[Exception] = []

    def refused(tx: Connection) -> None:
        events.append(tx, [("two", START, "told", {})])
        try:
            prepare(statement, tx.dialect).run(tx, {"job": "private"})
        except DBAPIError as error:
            seen.append(error)
            raise

    # When it is run
    with pytest.raises(StoreError) as refusal:
        await sql_store.database.write(refused)

    # Then the error is one of SQLAlchemy's, our own tells no value, and nothing was written
    assert len(seen) == 1
    assert "private" not in str(refusal.value)
    query = select(job_events.c.job_id)
    found = await sql_store.database.read(lambda tx: tx.execute(query).scalars().all())
    assert found == ["one"]


async def test_who_listens_to_statements_hears_a_prepared_one(sql_store: SqlStores) -> None:
    statement = select(literal("heard"))
    heard: list[str] = []

    def listened(tx: Connection) -> list[Any]:
        event.listen(tx, "before_cursor_execute", lambda *told: heard.append(told[2]))
        return [tuple(row) for row in prepare(statement, tx.dialect).run(tx, {})]

    assert await sql_store.database.read(listened) == [("heard",)]
    assert heard == [prepare(statement, sql_store.database.dialect).sql]


async def test_a_list_that_changes_its_length_is_refused(sql_store: SqlStores) -> None:
    statement = select(jobs.c.id).where(jobs.c.id.in_(bindparam("ids", expanding=True)))

    with pytest.raises(AssertionError, match="a list as a parameter"):
        PreparedStatement(statement, sql_store.database.dialect)
