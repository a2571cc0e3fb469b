"""Plans: among many users, the rows of one are exported and erased by way of indexes."""

import re

from sqlalchemy import Connection, insert

from headgate.store.sql.people.erasures import SqlErasures
from headgate.store.sql.people.personal_data import TABLES
from tests.conformance.query_plans import Ask, Crowd, check_plans
from tests.personal_rows import personal_row

USERS = 800
_TABLES = tuple(each.table.name for each in TABLES)
#: SQLite says SCAN for a whole table, and SEARCH for a way along an index.
_FULL_SCAN = re.compile(rf"SCAN ({'|'.join(_TABLES)})\b|Seq Scan on ({'|'.join(_TABLES)})")


def fill(tx: Connection) -> None:
    for each in TABLES:
        rows = [personal_row(each.table, f"user_{number}") for number in range(USERS)]
        # An application has few syncs.
        few = [
            {"sync": f"sync_{number % 5}"} if "sync" in rows[0] else {} for number in range(USERS)
        ]
        tx.execute(insert(each.table), [row | sync for row, sync in zip(rows, few, strict=True)])


async def export(store: SqlErasures) -> None:
    for kind in store.kinds:
        first = await store.export_page("user_7", kind, after=None, limit=1)
        assert len(first.rows) == 1, kind
        second = await store.export_page("user_7", kind, after=first.after, limit=1)
        assert second.rows == []


async def erase(store: SqlErasures) -> None:
    begun = await store.begin("erasure_1", "user_8", by="eve")
    while await store.erase_some(begun.id, limit=3):
        pass
    finished = await store.finish(begun.id)
    assert finished is not None
    assert sum(finished.deleted.values()) >= len(TABLES) - 2


ASKS = {"export": Ask(export, {"SELECT": ".*"}), "erase": Ask(erase, {"DELETE": ".*"})}
CROWD = Crowd(fill=fill, tables=_TABLES, full_scan=_FULL_SCAN, asks=ASKS, store=SqlErasures)


async def test_no_table_is_walked_over_for_one_user(crowded: SqlErasures) -> None:
    await check_plans(CROWD, crowded)
