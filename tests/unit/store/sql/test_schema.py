"""The schema: it says what `model/states.py` says, and migrations lead to it, once and safely."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text, update

from headgate.base.errors import SchemaNewer, StoreError
from headgate.model.job import JobParams, Lane, Mode
from headgate.model.states import JOB, DayStatus, JobState, words
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.schema import ENGINE
from headgate.store.sql.tables import coverage, jobs, metadata
from tests import stores
from tests.stores import START
from tools.check_migrations import parts

CLAIMED = (JobState.RUNNING, JobState.CANCELLING)


# ---- what a row may say ------------------------------------------------------------------------


def row_in(state: str, **fields: Any) -> dict[str, Any]:
    """A row that is right for the state."""
    return {
        "id": "job_1",
        "user_id": "user_1",
        "connection_id": "connection_1",
        "sync": "notes",
        "source": "roam",
        "mode": Mode.FULL.value,
        "lane": Lane.COLD.value,
        "request_hash": "request",
        "params": JobParams(),
        "state": state,
        "reason": "queued",
        "wake_at": START if state == JobState.PENDING else None,
        "created_at": START,
        "updated_at": START,
        "lease_until": START if state in CLAIMED else None,
        "finished_at": START if state in words(JOB.terminal) else None,
        **fields,
    }


async def insert_job(database: Database, row: dict[str, Any]) -> None:
    await database.write(lambda tx: tx.execute(insert(jobs).values(row)))


async def count_jobs(database: Database) -> int:
    return len(await database.read(lambda tx: tx.execute(select(jobs.c.id)).all()))


async def test_every_state_of_the_table_may_stand_in_a_row_and_no_other_word(
    database: Database,
) -> None:
    for state in JobState:
        await insert_job(database, row_in(state.value, id=state.value, connection_id=state.value))
    for wrong in ("", "Pending", "PENDING", "done", "idle", "pending "):
        with pytest.raises(StoreError, match="ck_headgate_jobs_state"):
            await insert_job(database, row_in(wrong))
    with pytest.raises(StoreError, match="ck_headgate_jobs_state"):
        await database.write(lambda tx: tx.execute(update(jobs).values(state="done")))

    assert await count_jobs(database) == len(JobState)


@pytest.mark.parametrize(("column", "kind"), [("mode", Mode), ("lane", Lane)], ids=["mode", "lane"])
async def test_mode_and_lane_take_their_own_words_and_no_other(
    database: Database, column: str, kind: type[StrEnum]
) -> None:
    for number, word in enumerate(words(kind)):
        job = row_in("pending", id=f"job_{number}", connection_id=str(number))
        await insert_job(database, {**job, column: word})

    with pytest.raises(StoreError, match=f"ck_headgate_jobs_{column}"):
        await insert_job(database, row_in("pending", **{"connection_id": "w", column: "wrong"}))


async def test_a_days_status_takes_its_own_words_and_no_other(database: Database) -> None:
    async def note(day: int, status: str) -> None:
        row = {
            "sync": "notes",
            "connection_id": "c",
            "day": START.date() + timedelta(days=day),
            "status": status,
            "records": 0,
            "job_id": "job_1",
            "updated_at": START,
        }
        await database.write(lambda tx: tx.execute(insert(coverage).values(row)))

    for day, word in enumerate(words(DayStatus)):
        await note(day, word)

    with pytest.raises(StoreError, match="ck_headgate_coverage_status"):
        await note(9, "missing")


async def test_a_job_has_a_lease_exactly_while_it_is_held_and_an_end_when_it_has_ended(
    database: Database,
) -> None:
    for state in JobState:
        lease = None if state in CLAIMED else START
        with pytest.raises(StoreError, match="ck_headgate_jobs_lease"):
            await insert_job(database, row_in(state.value, lease_until=lease))
        end = None if state in JOB.terminal else START
        with pytest.raises(StoreError, match="ck_headgate_jobs_finished"):
            await insert_job(database, row_in(state.value, finished_at=end))


async def test_only_a_pending_job_may_have_a_turn(database: Database) -> None:
    for state in JobState:
        if state is JobState.PENDING:
            await insert_job(database, row_in(state.value, turn=1))
        else:
            with pytest.raises(StoreError, match="ck_headgate_jobs_turn"):
                await insert_job(database, row_in(state.value, turn=1))


@pytest.mark.parametrize(
    "place", [{"turn": 1, "wake_at": None}, {"turn": None, "wake_at": START}], ids=["turn", "wake"]
)
async def test_a_pending_job_is_in_line_or_knows_when_it_wakes(
    database: Database, place: dict[str, Any]
) -> None:
    await insert_job(database, row_in("pending", **place))

    with pytest.raises(StoreError, match="ck_headgate_jobs_wakes"):
        await database.write(lambda tx: tx.execute(update(jobs).values(turn=None, wake_at=None)))


async def test_only_active_states_hold_the_place_of_a_sync_and_connection(
    database: Database,
) -> None:
    for state in JobState:
        place = {"connection_id": state.value}
        await insert_job(database, row_in(state.value, id=f"{state}_1", **place))
        second = insert_job(database, row_in("pending", id=f"{state}_2", **place))

        if state in JOB.active:
            with pytest.raises(StoreError):
                await second
        else:
            await second


# ---- migrations --------------------------------------------------------------------------------


_POSTGRES_SCHEMA = (
    """
    SELECT table_name, column_name, data_type, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public'
    """,
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    """
    SELECT indrelid::regclass::text, indexrelid::regclass::text, pg_get_indexdef(indexrelid)
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE relnamespace = 'public'::regnamespace
    """,
)


def described(tx: Connection) -> set[tuple[str, ...]]:
    """All that the database knows of our tables; the order in which they were made is left out."""
    if tx.dialect.name == "postgresql":
        rows: Iterable[Any] = [row for query in _POSTGRES_SCHEMA for row in tx.execute(text(query))]
        found = {tuple(str(value) for value in row) for row in rows}
    else:
        query = "SELECT type, tbl_name, name, sql FROM sqlite_master"
        found = {
            (kind, table, name, line)
            for kind, table, name, sql in tx.execute(text(query))
            for line in parts(sql or "")
        }
    return {line for line in found if "headgate_version" not in line}


async def test_the_migrations_lead_to_the_tables_of_the_code(blank: Database) -> None:
    # Given the schema that the migrations make
    await schema.migrate(blank)
    migrated = await blank.read(described)

    # When the tables are made again from the code
    await blank.write(metadata.drop_all)
    assert await blank.read(described) < migrated
    await blank.write(metadata.create_all)

    # Then they are the same
    assert await blank.read(described) == migrated
    assert any("ix_headgate_jobs_queued" in line for line in migrated)


async def test_migrating_tells_from_where_to_where_and_twice_changes_nothing(
    blank: Database,
) -> None:
    assert await schema.migrate(blank) == (None, ENGINE.head)
    before = await blank.read(described)

    assert await schema.migrate(blank) == (ENGINE.head, ENGINE.head)

    assert await blank.read(described) == before


@pytest.mark.fault(37)
async def test_a_database_of_a_newer_version_is_refused_and_left_alone(blank: Database) -> None:
    # Given a database that a newer version has migrated
    await schema.migrate(blank)
    await blank.write(lambda tx: tx.execute(text("UPDATE headgate_version SET version_num = 'zz'")))
    before = await blank.read(described), await blank.read(stores.contents)

    # When this version opens or migrates it
    for ask in (schema.prepare, schema.migrate):
        with pytest.raises(SchemaNewer, match="revision zz"):
            await ask(blank)

    # Then it is as it was
    assert (await blank.read(described), await blank.read(stores.contents)) == before
    assert await blank.read(schema.revision_of) == "zz"


@pytest.mark.fault(37)
async def test_two_who_migrate_at_once_do_not_meet(make_blank: stores.MakeDatabase) -> None:
    # Given two processes that start on a new database
    async with stores.in_use(first := make_blank()), stores.in_use(second := make_blank()):
        # When both migrate
        answers = await asyncio.gather(*(schema.migrate(each) for each in (first, second)))

    # Then one has done it, and the other found it done
    assert set(answers) == {(None, ENGINE.head), (ENGINE.head, ENGINE.head)}


@pytest.mark.fault(37)
async def test_a_migration_that_fails_leaves_nothing_behind(blank: Database) -> None:
    # Given a migration that fails after its first table
    made: list[str] = []

    def create_and_fail(tx: Connection) -> None:
        tx.execute(text("CREATE TABLE half (id INTEGER)"))
        made.append("half")
        raise StoreError("interrupted")

    # When it runs
    with pytest.raises(StoreError, match="interrupted"):
        await blank.migrate(create_and_fail)

    # Then the database is as blank as before
    assert made == ["half"]
    assert await blank.read(described) == set()
