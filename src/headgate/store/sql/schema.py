"""The schema's age: bringing it up to date, and refusing what this version does not understand."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from headgate.base.errors import SchemaBehind, SchemaNewer
from headgate.store.sql.database import Database

MIGRATIONS = Path(__file__).parent / "migrations"


async def prepare(database: Database) -> None:
    """Make an embedded database ready; check that any other one is."""
    if database.embedded:
        await database.migrate(upgrade)
    else:
        await database.read(_check)


async def migrate(database: Database) -> tuple[str | None, str]:
    """Bring the schema up to date; returns its revision before and after."""
    return await database.migrate(upgrade)


def head() -> str:
    """The revision that this version of Headgate works with."""
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert revision is not None
    return revision


def revision_of(tx: Connection) -> str | None:
    """The database's revision; None where it has no tables yet."""
    return MigrationContext.configure(tx).get_current_revision()


def _check(tx: Connection) -> None:
    found = revision_of(tx)
    _refuse_newer(found)
    if found != head():
        raise SchemaBehind(
            f"the database is at revision {found or 'none'}, this version of Headgate needs "
            f"{head()}: run `headgate migrate`"
        )


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaNewer(
            f"the database is at revision {found}, which this version of Headgate does not know: "
            "it was written by a newer one. Upgrade Headgate, or open another database"
        )


def upgrade(tx: Connection) -> tuple[str | None, str]:
    """Run the migrations that are missing, on this connection; revisions before and after."""
    before = revision_of(tx)
    _refuse_newer(before)
    if before != head():
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = tx
        command.upgrade(config, "head")
    return before, head()
