"""Erasing and exporting users on both databases: all of theirs, nothing of others', no secrets."""

import json
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from headgate import NewItem
from headgate.base.clock import ManualClock
from headgate.model.erasure import Erasure
from headgate.store.sql.engine.database import Database
from headgate.store.sql.items.store import SqlItems
from headgate.store.sql.people.erasures import SqlErasures
from headgate.store.sql.people.personal_data import IMPERSONAL, TABLES
from headgate.store.sql.tables import (
    api_keys,
    erasures,
    jobs,
    metadata,
    removed_connections,
)
from tests import personal_rows, stores
from tests.conformance.databases import shared_fixture
from tests.personal_rows import SECRET, store_rows

ADA, BOB = "ada-7f3", "bob-9c1"


@shared_fixture()
async def rows(database: Database) -> SqlErasures:
    """Two users with rows in every table."""

    def fill(tx: Connection) -> None:
        store_rows(tx, ADA, count=3)
        store_rows(tx, BOB, count=2)

    await database.write(fill)
    return SqlErasures(database)


async def everything(database: Database) -> str:
    """All rows of all tables, as a text to search."""
    return repr(await database.read(stores.contents))


async def erase_all(store: SqlErasures, erasure_id: str, *, limit: int) -> int:
    batches = 0
    while deleted := await store.erase_some(erasure_id, limit=limit):
        assert deleted <= limit
        batches += 1
    return batches


async def stored_of(store: SqlErasures, user: str, *, limit: int = 100) -> list[Any]:
    """All rows of a user, as they are exported."""
    found: list[Any] = []
    for kind in store.kinds:
        page = await store.export_page(user, kind, after=None, limit=limit)
        found += page.rows
        while page.after is not None:
            page = await store.export_page(user, kind, after=page.after, limit=limit)
            found += page.rows
    return found


async def erased(store: SqlErasures, user: str = ADA) -> Erasure:
    """The erasure of a user, from its beginning to its end."""
    begun = await store.begin("erasure_1", user, by="eve")
    await erase_all(store, begun.id, limit=5)
    finished = await store.finish(begun.id)
    assert finished is not None
    return finished


def test_every_table_is_known_to_hold_personal_data_or_none() -> None:
    personal = {each.table.name for each in TABLES}

    assert personal | set(IMPERSONAL) == {table.name for table in metadata.sorted_tables}
    assert not personal & set(IMPERSONAL)


@pytest.mark.security(33)
async def test_all_rows_of_a_user_are_erased_in_batches_and_no_others(
    rows: SqlErasures, database: Database
) -> None:
    before = await everything(database)
    assert all(f"{ADA}-{number}" in before for number in range(3))

    begun = await rows.begin("erasure_1", ADA, by="eve")
    batches = await erase_all(rows, begun.id, limit=5)
    finished = await rows.finish(begun.id)

    assert batches > 5
    assert finished is not None
    # These are forgotten with the connection, before the rows are counted.
    counted = [each.kind for each in TABLES if each.kind not in ("trouble", "tombstone")]
    assert dict(finished.deleted) == {kind: 1 if kind == "user" else 3 for kind in counted}
    left = await everything(database)
    # Connections are known by random ids; that those were removed is remembered for a week.
    known = await database.read(lambda tx: tx.execute(select(removed_connections)).all())
    for row in known:
        left = left.replace(row.connection_id, "")
    assert ADA not in left
    for each in TABLES:
        found = await rows.export_page(BOB, each.kind, after=None, limit=10)
        assert len(found.rows) == (1 if each.kind == "user" else 2), each.kind


async def test_of_a_user_whose_id_is_a_connection_only_a_hash_is_kept(
    rows: SqlErasures, database: Database
) -> None:
    own = update(jobs).where(jobs.c.id == f"{ADA}-0-headgate_jobs").values(connection_id=ADA)
    assert await database.write(lambda tx: tx.execute(own).rowcount) == 1
    await erased(rows)

    known = await database.read(lambda tx: tx.execute(select(removed_connections)).all())
    assert ADA not in [row.connection_id for row in known]
    # And still a worker that has not noticed yet registers nothing for them.
    photo = NewItem(
        id="photo",
        collection="album",
        user_id=ADA,
        connection_id=ADA,
        external_id="1",
        start_time=personal_rows.AT,
    )
    assert (await SqlItems(database).register([photo])).created == 0


async def test_a_second_erasure_goes_on_with_the_first_until_that_has_finished(
    rows: SqlErasures,
) -> None:
    first = await rows.begin("erasure_1", ADA, by="eve")
    await rows.erase_some(first.id, limit=4)

    again = await rows.begin("erasure_2", ADA, by="mallory")

    assert (again.id, again.asked_by) == ("erasure_1", "eve")
    assert sum(again.deleted.values()) == 4
    assert [each.id for each in await rows.list_unfinished(limit=10)] == ["erasure_1"]
    await erase_all(rows, again.id, limit=100)
    await rows.finish(again.id)
    assert await rows.list_unfinished(limit=10) == []
    later = await rows.begin("erasure_3", ADA, by="mallory")
    assert (later.id, dict(later.deleted)) == ("erasure_3", {})


async def test_an_erasure_does_not_finish_while_something_is_stored_again(
    rows: SqlErasures, database: Database
) -> None:
    begun = await rows.begin("erasure_1", ADA, by="eve")
    await erase_all(rows, begun.id, limit=100)

    await database.write(lambda tx: store_rows(tx, ADA))

    assert await rows.finish(begun.id) is None
    await erase_all(rows, begun.id, limit=100)
    assert await rows.finish(begun.id) is not None
    # To end it again, or to erase more, does nothing.
    assert await rows.erase_some(begun.id, limit=100) == 0
    ended = await rows.finish(begun.id)
    assert ended is not None
    assert ended.user_id is None


async def test_the_keys_of_a_user_are_revoked_before_anything_is_erased(
    rows: SqlErasures, database: Database, clock: ManualClock
) -> None:
    await rows.begin("erasure_1", ADA, by="eve")

    query = select(api_keys.c.user_id, api_keys.c.revoked_at)
    found = await database.read(lambda tx: tx.execute(query).all())
    assert {(row.user_id, row.revoked_at) for row in found} == {(ADA, clock.now()), (BOB, None)}


async def test_who_could_not_be_revoked_is_noted_once(
    rows: SqlErasures, database: Database
) -> None:
    begun = await rows.begin("erasure_1", ADA, by="eve")
    for source in ("strava", "fitbit", "strava"):
        await rows.note_unrevoked(begun.id, source)

    found = await database.read(lambda tx: tx.execute(select(erasures.c.unrevoked)).scalar_one())
    assert found == ("fitbit", "strava")


async def test_an_export_has_every_row_and_no_secret(rows: SqlErasures) -> None:
    found = await stored_of(rows, ADA, limit=2)

    kinds = [row["type"] for row in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        each.kind: 1 if each.kind == "user" else 3 for each in TABLES
    }
    text = json.dumps(found)
    assert SECRET.decode() not in text
    assert BOB not in text
    [body] = {json.dumps(row["body"]) for row in found if row["type"] == "item_document"}
    assert json.loads(body) == {"time": [0, 1]}


async def test_of_a_user_who_is_not_there_nothing_is_erased(
    rows: SqlErasures, database: Database
) -> None:
    assert dict((await erased(rows, "nobody")).deleted) == {}
    assert "nobody" not in await everything(database)


def test_the_rows_of_this_test_are_of_all_tables() -> None:
    assert set(personal_rows._FIELDS) <= {each.table.name for each in TABLES}
