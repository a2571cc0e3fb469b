"""The schema's age: bringing it up to date, and refusing what this version does not understand.

Alembic is imported only where something is to be migrated: it takes longer to load than everything
else at start.
"""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from headgate.base.errors import SchemaBehind, SchemaNewer
from headgate.store.sql.database import Database

MIGRATIONS = Path(__file__).parent / "migrations"

#: The revision that this version of Headgate works with; `make check` holds it to the newest file.
HEAD = "0010"


async def prepare(database: Database) -> None:
    """Make an embedded database ready; check that any other one is."""
    found = await database.read(revision_of)
    if found == HEAD:
        return
    if database.embedded:
        await database.migrate(upgrade)
        return
    _refuse_newer(found)
    raise SchemaBehind(
        f"the database is at revision {found or 'none'}, this version of Headgate needs {HEAD}: "
        "run `headgate migrate`"
    )


async def migrate(database: Database) -> tuple[str | None, str]:
    """Bring the schema up to date; returns its revision before and after."""
    return await database.migrate(upgrade)


def revision_of(tx: Connection) -> str | None:
    """The database's revision; None where it has no tables yet."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    return tx.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def upgrade(tx: Connection) -> tuple[str | None, str]:
    """Run the migrations that are missing, on this connection; revisions before and after."""
    before = revision_of(tx)
    if before != HEAD:
        _refuse_newer(before)
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = tx
        command.upgrade(config, "head")
    return before, HEAD


def _refuse_newer(found: str | None) -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaNewer(
            f"the database is at revision {found}, which this version of Headgate does not know: "
            "it was written by a newer one. Upgrade Headgate, or open another database"
        )
