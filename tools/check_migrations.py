"""Checks that the migrations lead to the tables in the code: same tables, columns, indexes, checks.

It checks the engine's tables, and those of each installed system. Alembic's own comparison does not
see CHECK constraints and the conditions of partial indexes, so the two schemas are built and
compared as SQLite tells them.
"""

import difflib
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, MetaData, create_engine

from headgate.base.lazy import load
from headgate.discovery import installed_systems
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.schema import ENGINE, Schema, schema_of, upgrade


def main() -> int:
    """Print how the tables and the migrations of each schema differ; 0 if none do."""
    found = [line for schema in (ENGINE, *_system_schemas()) for line in differences(schema)]
    for line in found:
        print(line)
    return 1 if found else 0


def _system_schemas() -> list[Schema]:
    schemas = []
    for each in installed_systems():
        if each.system is not None and each.system.tables is not None:
            tables: MetaData = load(each.system.tables, field=f"{each.name}.tables")
            module = sys.modules[each.system.tables.partition(":")[0]]
            folder = Path(str(module.__file__)).parent / "migrations"
            schemas.append(schema_of(each.name, tables, folder))
    return schemas


def differences(schema: Schema) -> list[str]:
    """How the migrated schema differs from the declared one; empty if it does not."""
    declared = _schema(schema.metadata.create_all)
    # No row is changed, so any time will do.
    migrated = _schema(
        partial(upgrade, schema=schema, now=Moment(datetime(2000, 1, 1, tzinfo=UTC)))
    )
    if migrated == declared:
        return []
    said = f"the migrations of {schema.name} do not lead to its tables; add one:"
    return [
        said,
        *difflib.unified_diff(declared, migrated, "tables.py", "migrations", lineterm="", n=0),
    ]


def _schema(build: Callable[[Connection], object]) -> list[str]:
    with create_engine("sqlite://").connect() as connection:
        build(connection)
        return sorted(_statements(connection))


def _statements(connection: Connection) -> list[str]:
    found = connection.exec_driver_sql(
        "SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL "
        "AND name NOT LIKE 'headgate_version%'"
    )
    return [part for row in found for part in parts(row.sql)]


def parts(sql: str) -> list[str]:
    """A statement as lines that do not depend on the order in which constraints were added."""
    flat = re.sub(r"\s+", " ", sql)
    head, _, body = flat.partition(" (")
    # SQLite quotes the name of a table that was copied and renamed, which is how it is altered.
    head = head.replace('"', "")
    # What closes the table is no part of whichever constraint comes last.
    inside = body.strip().removesuffix(")") if head.startswith("CREATE TABLE") else body
    pieces = re.split(r", (?=CONSTRAINT |[a-z_]+ [A-Z]+)", inside)
    return [f"{head}: {piece.strip()}" for piece in pieces]


if __name__ == "__main__":
    sys.exit(main())
