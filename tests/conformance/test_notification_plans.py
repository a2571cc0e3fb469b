"""Plans: among many troubles, what is asked often is still answered from an index."""

import re
from datetime import timedelta

from sqlalchemy import Connection

from headgate.base.clock import ManualClock
from headgate.flow.notifications.service import Composer
from headgate.model import change
from headgate.model.job import Reason
from tests import stores
from tests.conformance.crowds import fill_by
from tests.conformance.query_plans import Ask, Crowd, check_plans
from tests.notifying import BY_WEBHOOK
from tests.store_bundles import SqlStores
from tests.stores import START, SYNCS

ROWS = 10_000
#: One in a hundred is paused, half of those untold; all others were told of a failure.
_TROUBLES = """
    INSERT INTO headgate_troubles (
        connection_id, sync, user_id, job_id, trouble, paused_at, updated_at
    )
    SELECT 'connection_' || n, 'notes', 'user_' || (n % 997), 'job_' || n,
        CASE WHEN n % 200 = 0 THEN NULL WHEN n % 200 = 100 THEN 'paused' ELSE 'failed' END,
        CASE WHEN n % 100 = 0 THEN {later} END, {later}
    FROM {numbers}
"""


def fill(tx: Connection) -> None:
    fill_by(tx, _TROUBLES, rows=ROWS)


async def fail(store: SqlStores) -> None:
    job = await stores.run_one(store)
    await stores.settled(store, change.fail(job, reason=Reason.REFUSED, error="no"))


async def succeed(store: SqlStores) -> None:
    job = await stores.run_one(store, connection_id="connection_77")
    await stores.settled(store, change.succeed(job, stores.tally(), {}))


async def look_for_pauses(store: SqlStores) -> None:
    assert await store.notifications.tell_paused(limit=5) == 5


async def list_of_user(store: SqlStores) -> None:
    assert await store.notifications.list_troubles(user_id="user_5", limit=10)


async def list_all(store: SqlStores) -> None:
    assert await store.notifications.list_troubles(limit=10, after=("connection_2", "notes"))


_BY_CONNECTION = "pk_headgate_troubles|sqlite_autoindex_headgate_troubles_1"
CROWD = Crowd(
    fill=fill,
    tables=("headgate_troubles",),
    full_scan=re.compile(r"Seq Scan on headgate_troubles|SCAN headgate_troubles(?! USING)"),
    asks={
        "fail": Ask(fail, {"SELECT": _BY_CONNECTION}),
        "succeed": Ask(succeed, {"(SELECT|DELETE)": _BY_CONNECTION}),
        "pauses": Ask(look_for_pauses, {"SELECT": "ix_headgate_troubles_paused"}),
        "of a user": Ask(list_of_user, {"SELECT": "ix_headgate_troubles_user"}),
        "all": Ask(list_all, {"SELECT": _BY_CONNECTION}),
    },
    store=lambda database: SqlStores(database, SYNCS, Composer(BY_WEBHOOK, {})),
    # A day after everything in it.
    clock=ManualClock(START + timedelta(seconds=ROWS, hours=24)),
)


async def test_no_question_reads_the_whole_table(crowded: SqlStores) -> None:
    await check_plans(CROWD, crowded)
