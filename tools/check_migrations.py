"""Checks that the migrations lead to the tables in the code: same tables, columns, indexes, checks.

Alembic's own comparison does not see CHECK constraints and the conditions of partial indexes, so
the two schemas are built and compared as SQLite tells them.
"""

import difflib
import re
import sys

from sqlalchemy import Connection, create_engine

from headgate.store.sql.schema import upgrade
from headgate.store.sql.tables import metadata


def main() -> int:
    """Print how the two schemas differ; 0 if they do not."""
    migrated, declared = _schema(upgrade), _schema(metadata.create_all)
    if migrated == declared:
        return 0
    print("the migrations do not lead to the tables in store/sql/tables.py; add one:")
    for line in difflib.unified_diff(
        declared, migrated, "tables.py", "migrations", lineterm="", n=0
    ):
        print(line)
    return 1


def _schema(build: object) -> list[str]:
    with create_engine("sqlite://").connect() as connection:
        assert callable(build)
        build(connection)
        return sorted(_statements(connection))


def _statements(connection: Connection) -> list[str]:
    found = connection.exec_driver_sql(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
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
