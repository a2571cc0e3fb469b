"""Plans: among many items, what the store asks often is still answered from an index.

The statements are those that the store sends, caught on their way and given to EXPLAIN. `ITEM_ROWS`
in the environment says how many items there are: 1000000 shows the plans at a million.
"""

import os
import re
from datetime import timedelta

from sqlalchemy import Connection

from headgate.model import item as change
from headgate.model.item import Document
from headgate.model.job import Lane
from headgate.model.lease import Claim
from headgate.model.states import ItemState
from headgate.ports.items import NewItem
from headgate.store.sql.items import removals
from headgate.store.sql.items.store import SqlItems
from tests.conformance.crowds import STREAMS, fill_items
from tests.conformance.query_plans import Ask, Crowd, check_generic_plans, check_plans, plan
from tests.stores import LEASE, START

ITEM_ROWS = int(os.environ.get("ITEM_ROWS", "20000"))
DOCUMENT = Document.of_json({"time": [0, 1]})


def fill(tx: Connection) -> None:
    """Many items."""
    fill_items(tx, rows=ITEM_ROWS)


# ---- what the store asks -----------------------------------------------------------------------


async def claim(items: SqlItems) -> None:
    taken = await items.claim(STREAMS, "connection_7", limit=10, lease=LEASE, worker="w")
    assert len(taken) == 10
    await items.settle_many([(change.release(item), None) for item in taken])


async def claim_hot(items: SqlItems) -> None:
    taken = await items.claim(
        STREAMS, "connection_7", limit=10, lease=LEASE, worker="w", lane=Lane.HOT
    )
    await items.settle_many([(change.release(item), None) for item in taken])


async def settle(items: SqlItems) -> None:
    [item] = await items.claim(STREAMS, "connection_8", limit=1, lease=LEASE, worker="w")
    await items.settle_many([(change.succeed(item), DOCUMENT)])


async def register(items: SqlItems) -> None:
    found = NewItem(
        id="filled_107",
        collection=STREAMS,
        user_id="user_0",
        connection_id="connection_0",
        external_id="external_107",
        start_time=START,
    )
    await items.register([found])


async def progress(items: SqlItems) -> None:
    counted = await items.progress(STREAMS, "user_9")
    assert sum(counted.values()) == 1000


async def progress_of_connections(items: SqlItems) -> None:
    some = [(STREAMS, "connection_7"), (STREAMS, "connection_9")]
    counted = await items.progress_of_connections(some)
    assert [sum(counted[each].states.values()) for each in some] == [1000, 1000]


async def count_items(items: SqlItems) -> None:
    counted = await items.count_items(STREAMS)
    # But for what was forgotten.
    assert sum(counted.states.values()) > ITEM_ROWS - 10


async def stuck(items: SqlItems) -> None:
    assert await items.count_stuck(STREAMS) == ITEM_ROWS // 100


async def forget(items: SqlItems) -> None:
    await items.forget("connection_11", limit=2)


async def forget_removed(items: SqlItems) -> None:
    now = items.database.moment()
    await items.database.write(lambda tx: removals.note(tx, now, "connection_12"))
    assert await items.forget_removed(limit=2) == 2


#: A primary key's index has another name on either database.
_BY_ID = "(pk_headgate_items|sqlite_autoindex_headgate_items_1)"
_GIVEN = r"(WITH given\([^)]*\) AS \(VALUES .*\) )?"
_LOCK = {
    "SELECT headgate_items.id, headgate_items.state": _BY_ID,
    f"{_GIVEN}UPDATE headgate_items SET": _BY_ID,
}
_TABLE = "headgate_items"
_FORGET = {
    f"SELECT {_TABLE}.id FROM {_TABLE} WHERE {_TABLE}.connection_id": "uq_headgate_items_external",
    f"SELECT {_TABLE}.id FROM {_TABLE} WHERE {_TABLE}.id": _BY_ID,
    "DELETE FROM headgate_items": _BY_ID,
}
ASKS: dict[str, Ask[SqlItems]] = {
    "claim": Ask(claim, {"WITH picked AS": r"ix_headgate_items_eligible\b", **_LOCK}),
    "claim hot": Ask(claim_hot, {"WITH picked AS": r"ix_headgate_items_eligible\b"}),
    "settle": Ask(settle, _LOCK),
    "extend": Ask(
        lambda items: items.extend([Claim("filled_103", 1), Claim("filled_203", 1)], lease=LEASE),
        {"WITH mine AS": _BY_ID},
    ),
    "register": Ask(register, {"SELECT headgate_items.id, headgate_items.collection": _BY_ID}),
    "expired": Ask(
        lambda items: items.list_expired(limit=100), {"SELECT": "ix_headgate_items_fetching"}
    ),
    "next expiry": Ask(
        lambda items: items.next_sweep_s(), {"SELECT": "ix_headgate_items_fetching"}
    ),
    # SQLite walks over the connection's items instead: it is asked only after a short batch.
    "next due": Ask(
        lambda items: items.next_due_s(STREAMS, "connection_7"),
        {"SELECT": r"(ix_headgate_items_eligible|uq_headgate_items_external)\b"},
    ),
    "serve": Ask(lambda items: items.serve("filled_108", user_id="user_0"), {"SELECT": _BY_ID}),
    "progress": Ask(progress, {"SELECT": "ix_headgate_items_counted"}),
    "progress of connections": Ask(
        progress_of_connections, {"SELECT": "uq_headgate_items_external"}
    ),
    "stuck": Ask(stuck, {"SELECT": "ix_headgate_items_counted"}),
    "limited": Ask(
        lambda items: items.count_limited(STREAMS, within=timedelta(seconds=600)),
        {"SELECT": "ix_headgate_items_limited"},
    ),
    "list mine": Ask(
        lambda items: items.list_items(
            STREAMS, user_id="user_9", states=[ItemState.PENDING], limit=20
        ),
        {"SELECT": "ix_headgate_items_counted"},
    ),
    "forget": Ask(forget, _FORGET),
    "forget removed": Ask(
        forget_removed,
        {"SELECT headgate_removed_connections": "uq_headgate_items_external", **_FORGET},
    ),
}

_FULL_SCAN = re.compile(
    r"Seq Scan on headgate_items"
    r"|SCAN headgate_items(?! USING (COVERING )?INDEX ix_headgate_items_fetch)"
)


CROWD = Crowd(
    fill=fill, tables=("headgate_items",), full_scan=_FULL_SCAN, asks=ASKS, store=SqlItems
)


async def test_what_is_asked_often_stands_on_an_index(crowded: SqlItems) -> None:
    await check_plans(CROWD, crowded)


async def test_a_generic_plan_stands_on_the_same_indexes(crowded_url: str) -> None:
    await check_generic_plans(CROWD, crowded_url)


async def test_a_claim_is_served_in_the_order_of_its_index_and_sorts_nothing(
    crowded: SqlItems,
) -> None:
    with CROWD.caught() as sent:
        await crowded.claim(STREAMS, "connection_7", limit=10, lease=LEASE, worker="w")

    [steps] = [await plan(crowded.database, each) for each in sent]

    assert not re.search(r"Sort|TEMP B-TREE FOR ORDER BY", steps), steps


async def test_the_census_walks_along_its_index_and_touches_no_row(crowded: SqlItems) -> None:
    with CROWD.caught() as sent:
        await count_items(crowded)

    for each in sent:
        steps = await plan(crowded.database, each)
        assert re.search("Index Only Scan|COVERING INDEX", steps), steps
        assert "ix_headgate_items_counted" in steps
