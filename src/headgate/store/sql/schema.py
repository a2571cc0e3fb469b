"""Schema revisions: migrating the tables, and refusing a database that is newer than this version.

The engine's tables and those of each system are migrated separately: each has its own folder of
Alembic migrations, and its own table with its revision. Alembic is imported only for a migration,
because it takes longer to load than everything else at start.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from sqlalchemy import Connection, MetaData, Table, inspect, select

from headgate.base.errors import InvalidInput, SchemaBehind, SchemaNewer
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.tables import metadata

_SCRIPTS = Path(__file__).parent / "migrations"


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that are migrated together."""

    #: The owner of the tables, for people.
    name: str
    metadata: MetaData
    #: The folder of its migrations: `0001_first.py`, `0002_second.py`, …
    migrations: Path
    #: The table with its revision.
    version_table: str

    @property
    def head(self) -> str:
        """The newest revision: the number at the start of the newest migration's file name."""
        numbers = [path.name.partition("_")[0] for path in self.migrations.glob("[0-9]*_*.py")]
        if not numbers:
            raise InvalidInput("tables", f"{self.name} has no migrations in {self.migrations}")
        return max(numbers)


ENGINE = Schema(
    name="headgate",
    metadata=metadata,
    migrations=_SCRIPTS / "versions",
    version_table="headgate_version",
)


def schema_of(system: str, tables: MetaData, migrations: Path) -> Schema:
    """The schema of a system's own tables."""
    version_table = f"headgate_version_{system.replace('-', '_')}"
    return Schema(name=system, metadata=tables, migrations=migrations, version_table=version_table)


async def prepare(database: Database, schemas: Sequence[Schema] = (ENGINE,)) -> None:
    """Migrate an embedded database; check the revisions of any other."""
    found = await database.read(lambda tx: [revision_of(tx, each) for each in schemas])
    for revision, each in zip(found, schemas, strict=True):
        if revision == each.head:
            continue
        if database.embedded:
            await migrate(database, each)
            continue
        _refuse_newer(revision, each)
        raise SchemaBehind(
            f"the tables of {each.name} are at revision {revision or 'none'}, this version needs "
            f"{each.head}: run `headgate migrate`"
        )


async def migrate(database: Database, schema: Schema = ENGINE) -> tuple[str | None, str]:
    """Migrate the tables; returns their revision before and after."""
    return await database.migrate(lambda tx: upgrade(tx, schema, now=database.moment()))


def revision_of(tx: Connection, schema: Schema = ENGINE) -> str | None:
    """The revision of the tables; None if there are none yet."""
    if not inspect(tx).has_table(schema.version_table):
        return None
    versions = Table(schema.version_table, MetaData(), autoload_with=tx)
    return tx.execute(select(versions.c.version_num)).scalar_one_or_none()


def upgrade(tx: Connection, schema: Schema = ENGINE, *, now: Moment) -> tuple[str | None, str]:
    """Run the missing migrations on this connection; returns the revision before and after.

    A migration finds the store's time as `now` in the attributes of Alembic's configuration.
    """
    before = revision_of(tx, schema)
    if before != schema.head:
        _refuse_newer(before, schema)
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(_SCRIPTS))
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", str(schema.migrations))
        config.attributes.update(connection=tx, schema=schema, now=now)
        command.upgrade(config, "head")
    return before, schema.head


def _refuse_newer(found: str | None, schema: Schema) -> None:
    if found is not None and found > schema.head:
        raise SchemaNewer(
            f"the tables of {schema.name} are at revision {found}, which this version does not "
            "know: they were written by a newer one. Upgrade it, or open another database"
        )
