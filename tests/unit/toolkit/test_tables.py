"""What systems make their tables of behaves alike on both databases."""

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

from sqlalchemy import Column, MetaData, Table, Text, select

from headgate.store.sql.engine.database import Database
from headgate.toolkit.tables import JsonOf, OneOf, UtcTime, insert_into


class Mood(StrEnum):
    """A word of a closed list."""

    GOOD = "good"
    BAD = "bad"


metadata = MetaData()
notes = Table(
    "toolkit_notes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("tags", JsonOf[list[str]](list[str])),
    Column("mood", OneOf(Mood)),
)
LOCAL = datetime(2026, 1, 5, 13, 30, 0, 7, tzinfo=timezone(timedelta(hours=1)))


async def test_times_json_and_words_come_back_as_they_went(database: Database) -> None:
    row = {"id": "1", "at": LOCAL, "tags": ["a", "ä"], "mood": Mood.GOOD}
    await database.write(metadata.create_all)
    try:
        await database.write(lambda tx: tx.execute(insert_into(tx.dialect, notes).values(row)))

        [found] = await database.read(lambda tx: tx.execute(select(notes)).all())
    finally:
        await database.write(metadata.drop_all)

    assert found == ("1", LOCAL, ["a", "ä"], Mood.GOOD)
    assert found.at.tzinfo is UTC and isinstance(found.mood, Mood)


async def test_an_insert_knows_what_to_do_with_a_row_that_is_there(database: Database) -> None:
    await database.write(metadata.create_all)
    try:
        for mood in (Mood.GOOD, Mood.BAD):
            row = {"id": "1", "at": LOCAL, "mood": mood}
            await database.write(
                lambda tx, row=row: tx.execute(  # type: ignore[misc]
                    insert_into(tx.dialect, notes).values(row).on_conflict_do_nothing()
                )
            )

        moods = await database.read(lambda tx: tx.execute(select(notes.c.mood)).scalars().all())
    finally:
        await database.write(metadata.drop_all)

    assert moods == [Mood.GOOD]
