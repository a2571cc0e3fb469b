"""The table of check-ins on both databases: stored once by id, listed in order, erased in parts."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from headgate import Record, RecordCounts, TableBatch
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.schema import schema_of
from headgate.systems.daily_checkins import tables

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
SCHEMA = schema_of("daily-checkins", tables.metadata, Path(tables.__file__).parent / "migrations")


@pytest.fixture
async def own(database: Database) -> AsyncIterator[Database]:
    """A database with the system's table, empty."""
    await schema.migrate(database, SCHEMA)
    yield database
    # On a server, other tests use the same database.
    await database.migrate(tables.metadata.drop_all)
    await database.migrate(lambda tx: tx.execute(text(f"DROP TABLE {SCHEMA.version_table}")))


def record(name: str, *, at_s: int = NOW_S, **more: Any) -> Record:
    return Record(name, {"id": name, "createdAt": at_s, **more})


def batch(records: Sequence[Record], *, user: str = "ada", at: datetime = NOW) -> TableBatch:
    return TableBatch(
        user_id=user,
        connection_id=f"conn-{user}",
        sync="check-ins",
        job_id="job_1",
        records=records,
        at=at,
    )


async def store(own: Database, records: Sequence[Record], **given: Any) -> RecordCounts:
    wanted = batch(records, **given)
    return await own.write(lambda tx: tables.CheckinTable().store(tx, wanted))


async def listed(own: Database, user: str = "ada", **given: Any) -> list[str]:
    wanted = {"before": None, "limit": 1000, **given}
    return [each.id for each in await own.read(lambda tx: tables.list_checkins(tx, user, **wanted))]


async def test_each_is_stored_once_and_counted_by_what_became_of_it(own: Database) -> None:
    first = await store(own, [record(each, shout="old") for each in "abc"])
    later = NOW + timedelta(hours=1)
    again = [record("a", shout="old"), record("b", shout="new"), record("d")]
    second = await store(own, again, at=later)

    assert first == RecordCounts(inserted=3)
    assert second == RecordCounts(inserted=1, updated=1, unchanged=1)
    rows = {row.id: row for row in await own.read(lambda tx: _all(tx))}
    assert {name: (row.imported_at, row.updated_at) for name, row in rows.items()} == {
        "a": (NOW, NOW),
        "b": (NOW, later),
        "c": (NOW, NOW),
        "d": (later, later),
    }
    assert rows["b"].shout == "new"


def _all(tx: Connection) -> Sequence[Any]:
    return tables.list_checkins(tx, "ada", before=None, limit=1000)


async def test_the_venue_and_the_time_are_columns_and_all_of_it_is_kept(own: Database) -> None:
    venue = {
        "id": "v1",
        "name": "Pier",
        "location": {"lat": 33.45, "lng": -112.07, "city": "Phoenix", "country": "US"},
        "categories": [{"name": "Harbor", "primary": True}],
    }
    await store(own, [record("a", venue=venue, timeZoneOffset=-420, other={"x": [1, 2]})])

    row = await own.read(lambda tx: tables.get(tx, "ada", "a"))

    assert row is not None
    assert (row.venue_name, row.venue_category, row.venue_city) == ("Pier", "Harbor", "Phoenix")
    assert (row.venue_lat, row.venue_lng, row.venue_address) == (33.45, -112.07, None)
    assert (row.created_at, row.time_zone_offset_min) == (NOW, -420)
    assert row.connection_id == "conn-ada"
    assert '"other":{"x":[1,2]}' in row.content


async def test_a_check_in_without_a_venue_or_with_a_strange_one_is_stored(own: Database) -> None:
    strange = [record("a"), record("b", venue="nowhere"), record("c", shout="a\0b", x="\0")]

    assert await store(own, strange) == RecordCounts(inserted=3)
    row = await own.read(lambda tx: tables.get(tx, "ada", "c"))
    assert row is not None
    assert (row.shout, row.venue_name) == ("ab", None)
    assert r'"x":"\u0000"' in row.content


async def test_the_same_id_of_two_users_is_two_rows(own: Database) -> None:
    await store(own, [record("a", shout="hers")])
    assert await store(own, [record("a", shout="his")], user="bob") == RecordCounts(inserted=1)

    mine = await own.read(lambda tx: tables.get(tx, "ada", "a"))
    assert mine is not None
    assert mine.shout == "hers"
    assert await own.read(lambda tx: tables.get(tx, "eve", "a")) is None


async def test_they_are_listed_from_the_newest_with_equal_times_in_one_order(own: Database) -> None:
    await store(own, [record(f"c{number}", at_s=NOW_S + number // 3) for number in range(9)])
    await store(own, [record("other")], user="bob")
    whole = await listed(own)

    pages: list[str] = []
    before: tuple[datetime, str] | None = None
    while page := await own.read(
        lambda tx: tables.list_checkins(tx, "ada", before=before, limit=2)  # noqa: B023 - at once
    ):
        pages += [row.id for row in page]
        before = (page[-1].created_at, page[-1].id)

    assert whole == pages == [f"c{number}" for number in reversed(range(9))]


async def test_many_are_stored_in_a_few_statements(own: Database) -> None:
    sent: list[str] = []

    def run(tx: Connection) -> RecordCounts:
        event.listen(tx, "before_cursor_execute", lambda *given: sent.append(given[2]))
        return tables.CheckinTable().store(tx, batch([record(f"c{n}") for n in range(250)]))

    assert await own.write(run) == RecordCounts(inserted=250)
    assert len(sent) <= 20


async def test_a_user_is_summarized_and_all_are_counted_by_the_day(own: Database) -> None:
    await store(own, [record("a"), record("b", at_s=NOW_S + 5)])
    await store(own, [record("c")], user="bob", at=NOW + timedelta(hours=2))

    assert await own.read(lambda tx: tables.summarize(tx, "ada")) == (2, NOW + timedelta(seconds=5))
    assert await own.read(lambda tx: tables.summarize(tx, "eve")) == (0, None)
    assert await own.read(lambda tx: tables.count_since(tx, NOW)) == (3, 2)
    assert await own.read(lambda tx: tables.count_since(tx, NOW + timedelta(hours=1))) == (1, 1)


async def test_a_user_is_erased_in_parts_and_others_stay(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ERASED_AT_ONCE", 2)
    await store(own, [record(each) for each in "abc"])
    await store(own, [record("a")], user="bob")

    erased = [await own.write(lambda tx: tables.erase_some(tx, "ada")) for _ in range(3)]

    assert erased == [2, 1, 0]
    assert (await listed(own), await listed(own, "bob")) == ([], ["a"])
