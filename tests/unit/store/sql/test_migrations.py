"""Migrations of databases that are in use: what is in them stays, and what is new is filled in."""

import shutil
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from headgate.model.user import Preferences, User
from headgate.ports.records.store import RecordFilter
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.people.users import SqlUsers
from headgate.store.sql.schema import ENGINE, Schema
from tests.store_bundles import SqlStores
from tests.stores import START

LONG_AGO = START - timedelta(days=400)


def until(revision: str, folder: Path) -> Schema:
    """The schema as it was at that revision."""
    folder.mkdir()
    for file in ENGINE.migrations.glob("[0-9]*_*.py"):
        if file.name.partition("_")[0] <= revision:
            shutil.copy(file, folder)
    return msgspec.structs.replace(ENGINE, migrations=folder)


async def insert(database: Database, table: str, **values: Any) -> None:
    """Write a row as it was written then; times as the database has them."""
    if database.dialect.name == "sqlite":
        values = {
            name: int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value
            for name, value in values.items()
        }
    places = ", ".join(f":{name}" for name in values)
    statement = text(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})")
    await database.write(lambda tx: tx.execute(statement, values))


async def connect(database: Database, connection_id: str, user_id: str) -> None:
    await insert(
        database,
        "headgate_connections",
        id=connection_id,
        user_id=user_id,
        source="strava",
        state="active",
        reason="connected",
        scopes="[]",
        sealed_access=b"a",
        key_id="k1",
        version=1,
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )


async def test_users_who_were_there_before_count_as_seen_at_the_migration(
    blank: Database, tmp_path: Path
) -> None:
    # Given a database of revision 0002: one user has a plan, one two connections, one both
    await schema.migrate(blank, until("0002", tmp_path / "old"))
    for user_id, plan in (("ada", "premium"), ("bob", "free")):
        await insert(blank, "headgate_users", id=user_id, plan=plan, updated_at=LONG_AGO)
    for number, user_id in enumerate(("bob", "eve", "eve")):
        await connect(blank, f"conn_{number}", user_id)

    # When it is migrated
    before, after = await schema.migrate(blank)
    assert (before, after) == ("0002", ENGINE.head)

    # Then each has one row, has kept the plan, and was here at the time of the migration
    found = await SqlUsers(blank).list_users(limit=10)
    now = await blank.read(blank.moment().read)
    assert [(user.id, user.plan) for user in found] == [
        ("ada", "premium"),
        ("bob", "free"),
        ("eve", None),
    ]
    [seen] = {user.last_login_at for user in found}
    assert seen is not None and timedelta(0) <= now - seen < timedelta(minutes=5)
    assert [user.created_at for user in found] == [LONG_AGO, LONG_AGO, seen]
    assert found[2] == User(id="eve", last_login_at=seen, created_at=seen, updated_at=seen)
    assert {user.preferences for user in found} == {Preferences()}
    # And from here on the table takes a user without a plan, and writes as to a new one.
    assert not await SqlUsers(blank).write_login("ada")
    assert await SqlUsers(blank).write_login("zoe")
    changed = await SqlUsers(blank).set_preferences("ada", {"time": "06:30"})
    assert (changed.plan, changed.preferences) == ("premium", Preferences(time="06:30"))


async def store_record(database: Database, connection_id: str) -> None:
    await insert(
        database,
        "headgate_records",
        sync="notes",
        connection_id=connection_id,
        key="a",
        data="{}",
        hash="h",
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )


async def had_job(
    database: Database, job_id: str, connection_id: str, user_id: str, **more: object
) -> None:
    await insert(
        database,
        "headgate_jobs",
        **dict.fromkeys(("steps", "attempts", "crashes", "deferrals", "pauses", "token"), 0),
        **dict.fromkeys(("probe", "pause_requested", "rerun"), False),
        **dict.fromkeys(("params", "progress", "summary"), "{}"),
        id=job_id,
        connection_id=connection_id,
        user_id=user_id,
        sync="notes",
        source="roam",
        mode="full",
        lane="hot",
        request_hash="h",
        state="success",
        reason="done",
        recent_errors="[]",
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
        finished_at=LONG_AGO,
        **more,
    )


async def test_records_that_were_there_before_belong_to_whom_they_were_read_for(
    blank: Database, tmp_path: Path
) -> None:
    # Given records of a connection, of one that was removed, and of a user without accounts
    await schema.migrate(blank, until("0008", tmp_path / "old"))
    await connect(blank, "conn_1", "ada")
    await had_job(blank, "job_3", "conn_1", "eve")
    await had_job(blank, "job_2", "conn_2", "bob")
    await had_job(blank, "job_4", "conn_2", "eve")
    for connection_id in ("conn_1", "conn_2", "zoe"):
        await store_record(blank, connection_id)

    # When it is migrated
    await schema.migrate(blank)

    # Then each sees their own
    found = await SqlStores(blank, ["notes"]).records.find_records(
        RecordFilter(sync="notes"), limit=10
    )
    assert [(row.connection_id, row.user_id) for row in found.rows] == [
        ("conn_1", "ada"),
        ("conn_2", "bob"),
        ("zoe", "zoe"),
    ]
    mine = RecordFilter(sync="notes", user_id="zoe")
    assert len((await SqlStores(blank, ["notes"]).records.find_records(mine, limit=10)).rows) == 1


async def test_days_that_were_covered_before_went_where_their_job_says(
    blank: Database, tmp_path: Path
) -> None:
    # Given days that were read by a job for a destination, by one without, and by one that is gone
    await schema.migrate(blank, until("0010", tmp_path / "old"))
    await had_job(blank, "job_1", "conn_1", "ada", destination_connection_id="account")
    await had_job(blank, "job_2", "conn_1", "ada")
    for number, day in enumerate(("2026-01-01", "2026-01-02", "2026-01-03"), start=1):
        await insert(
            blank,
            "headgate_coverage",
            sync="notes",
            connection_id="conn_1",
            day=date.fromisoformat(day) if blank.dialect.name == "postgresql" else day,
            status="held",
            records=1,
            job_id=f"job_{number}",
            updated_at=LONG_AGO,
        )

    # When it is migrated
    await schema.migrate(blank)

    # Then each day is known for its destination
    query = "SELECT destination_connection_id FROM headgate_coverage ORDER BY day"
    found = await blank.read(lambda tx: tx.execute(text(query)).scalars().all())
    assert found == ["account", None, None]


@pytest.mark.parametrize("make_blank", ["postgres"], indirect=True)
async def test_postgres_vacuums_queues_long_before_a_fifth_of_them_is_dead(blank: Database) -> None:
    # Given a migrated database, where every claim and every settle leaves a dead row
    await schema.migrate(blank)

    # Then the tables that queues are in are vacuumed early, however large they are
    query = "SELECT relname, unnest(reloptions) FROM pg_class WHERE relname ~ '^headgate_'"
    found: dict[str, set[str]] = {}
    for table, option in await blank.read(lambda tx: tx.execute(text(query)).all()):
        found.setdefault(table, set()).add(option)
    early = {"autovacuum_vacuum_threshold=5000", "autovacuum_vacuum_scale_factor=0.01"}
    assert found == {
        "headgate_jobs": early | {"fillfactor=85"},
        **dict.fromkeys(
            ("headgate_job_events", "headgate_items", "headgate_messages", "headgate_deliveries"),
            early,
        ),
    }
