"""Tables of systems: migrated by themselves, each with a revision of its own, on both databases."""

from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, inspect, text

from headgate.base.errors import InvalidInput, SchemaBehind, SchemaNewer, StoreError
from headgate.store.sql import schema
from headgate.store.sql.engine.database import Database
from headgate.store.sql.schema import ENGINE, Schema, schema_of

MIGRATION = '''"""A revision."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {before!r}


def upgrade():
    """Create a table."""
    op.create_table("{table}", sa.Column("id", sa.Integer(), primary_key=True))
    {more}
'''


class Books:
    """A system whose tables grow from version to version."""

    def __init__(self, folder: Path, name: str = "book-shop") -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.schema: Schema = schema_of(name, MetaData(), self.folder)

    def release(self, revision: str, table: str, *, more: str = "pass") -> None:
        """A new version, with one more table."""
        before = max((path.name[:4] for path in self.folder.glob("*.py")), default=None)
        source = MIGRATION.format(revision=revision, before=before, table=table, more=more)
        (self.folder / f"{revision}_{table}.py").write_text(source, encoding="utf-8")
        Table(table, self.schema.metadata, Column("id", Integer, primary_key=True))


@pytest.fixture
def books(tmp_path: Path) -> Books:
    """A system with one table."""
    made = Books(tmp_path)
    made.release("0001", "books")
    return made


async def tables(database: Database) -> set[str]:
    """The names of all tables."""
    return await database.read(lambda tx: set(inspect(tx).get_table_names()))


async def revision(database: Database, of: Schema) -> str | None:
    return await database.read(lambda tx: schema.revision_of(tx, of))


# ---- what a schema is called -------------------------------------------------------------------


def test_its_version_table_has_its_name_and_its_head_is_the_newest_migration(books: Books) -> None:
    assert books.schema.version_table == "headgate_version_book_shop" != ENGINE.version_table
    assert books.schema.head == "0001"
    books.release("0002", "authors")
    (books.folder / "__init__.py").touch()
    (books.folder / "notes.txt").touch()

    assert books.schema.head == "0002"


def test_a_system_with_tables_and_no_migrations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="empty has no migrations in"):
        _ = schema_of("empty", MetaData(), tmp_path).head


# ---- upgrading ---------------------------------------------------------------------------------


async def test_a_systems_tables_are_migrated_once_and_without_the_engines(
    blank: Database, books: Books
) -> None:
    assert await schema.migrate(blank, books.schema) == (None, "0001")
    assert await schema.migrate(blank, books.schema) == ("0001", "0001")

    assert await tables(blank) == {"books", "headgate_version_book_shop"}
    assert await revision(blank, ENGINE) is None


async def test_a_new_version_adds_what_is_missing_and_keeps_the_rows(
    blank: Database, books: Books
) -> None:
    # Given the first version's tables with a row
    await schema.migrate(blank, books.schema)
    await blank.write(lambda tx: tx.execute(text("INSERT INTO books (id) VALUES (7)")))

    # When the second comes
    books.release("0002", "authors")
    assert await schema.migrate(blank, books.schema) == ("0001", "0002")

    # Then its table is there, and the row is too
    assert "authors" in await tables(blank)
    rows = await blank.read(lambda tx: tx.execute(text("SELECT id FROM books")).scalars().all())
    assert rows == [7]

    # And where the third fails, the version before is left
    before = await tables(blank)
    books.release("0003", "shelves", more='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(StoreError):
        await schema.migrate(blank, books.schema)
    assert await tables(blank) == before
    assert await revision(blank, books.schema) == "0002"


async def test_the_engine_and_two_systems_each_have_their_own_revision(
    blank: Database, books: Books, tmp_path: Path
) -> None:
    films = Books(tmp_path, "films")
    films.release("0001", "films")
    films.release("0002", "actors")

    for each in (ENGINE, films.schema, books.schema):
        await schema.migrate(blank, each)

    found = [await revision(blank, each) for each in (ENGINE, films.schema, books.schema)]
    assert found == [ENGINE.head, "0002", "0001"]
    assert await tables(blank) >= {"headgate_jobs", "headgate_version", "books", "films", "actors"}


# ---- opening -----------------------------------------------------------------------------------


async def test_a_file_is_brought_up_to_date_and_a_server_is_not(
    blank: Database, books: Books
) -> None:
    wanted = [ENGINE, books.schema]
    if not blank.embedded:
        # Whoever opens a server is told the command, and makes nothing; after it all is well.
        with pytest.raises(SchemaBehind, match="headgate migrate"):
            await schema.prepare(blank)
        assert await tables(blank) == set()
        await schema.migrate(blank)
        with pytest.raises(SchemaBehind, match=r"tables of book-shop .* none.*`headgate migrate`"):
            await schema.prepare(blank, wanted)
        assert "books" not in await tables(blank)
        await schema.migrate(blank, books.schema)

    await schema.prepare(blank, wanted)

    assert [await revision(blank, each) for each in wanted] == [ENGINE.head, "0001"]


async def test_tables_of_a_newer_version_are_refused_and_left_alone(
    blank: Database, books: Books
) -> None:
    # Given tables that a newer version of the system has migrated
    await schema.migrate(blank)
    await schema.migrate(blank, books.schema)
    newer = text(f"UPDATE {books.schema.version_table} SET version_num = '0009'")
    await blank.write(lambda tx: tx.execute(newer))
    before = await tables(blank)

    # When this version opens or migrates them
    for ask in (
        schema.prepare(blank, [ENGINE, books.schema]),
        schema.migrate(blank, books.schema),
    ):
        with pytest.raises(SchemaNewer, match=r"tables of book-shop are at revision 0009"):
            await ask

    # Then they are as they were, and the engine's own are not to blame
    assert await tables(blank) == before
    assert await revision(blank, books.schema) == "0009"
    await schema.prepare(blank)
