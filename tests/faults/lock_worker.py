"""A real process that does one thing to the store of `DATABASE`, named by its argument.

It prints "ready" when it is connected, "done" when the store took what it did, and "refused" when
the store did not.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta

from headgate.base.clock import SystemClock
from headgate.base.errors import StoreUnavailable
from headgate.model import change, item
from headgate.model.budget import Budget, BudgetRequest, Limit, Unreachable
from headgate.model.job import Lane
from headgate.store.sql.budgets.limiter import SqlLimiter
from headgate.store.sql.engine.database import Database
from headgate.store.sql.engine.postgres import PostgresDatabase
from headgate.store.sql.items.store import SqlItems
from tests.store_bundles import SqlStores

COLLECTION = "locked"
#: What the application runs. `tests.stores` says so too, but imports all that there is to import.
SYNCS = ("notes",)
LEASE = timedelta(minutes=5)
BUDGET = Budget("locked", [Limit(100, per="day")], paced=False)


async def settle_job(database: Database) -> object:
    """Claim a job, and put it off."""
    store = SqlStores(database, SYNCS)
    [job] = (await store.jobs.claim(Lane.COLD, worker="frozen", limit=1, lease=LEASE)).jobs
    return await store.jobs.settle(change.release(job))


async def spend(database: Database) -> object:
    """Take one request from the budget."""
    ask = BudgetRequest(lane=Lane.HOT, connection_id="c")
    answer = await SqlLimiter(database).acquire(BUDGET, ask, grant_id=f"grant-{os.getpid()}")
    if isinstance(answer, Unreachable):
        raise StoreUnavailable(answer.error)
    return answer


async def settle_item(database: Database) -> object:
    """Claim an item, and give it back."""
    items = SqlItems(database)
    taken = await items.claim(COLLECTION, "c", limit=1, lease=LEASE, worker="frozen")
    return await items.settle_many([(item.release(each), None) for each in taken])


async def prune(database: Database) -> object:
    """Delete every event."""
    return await SqlStores(database, SYNCS).events.prune_events(older_than=timedelta(0), limit=10)


OPERATIONS: dict[str, Callable[[Database], Awaitable[object]]] = {
    operation.__name__: operation for operation in (settle_job, spend, settle_item, prune)
}


async def main() -> None:
    """Do it."""
    database = PostgresDatabase(os.environ["DATABASE"], SystemClock())
    await database.open()
    print("ready", flush=True)
    try:
        await OPERATIONS[sys.argv[1]](database)
        print("done", flush=True)
    except StoreUnavailable:
        print("refused", flush=True)
    finally:
        await database.close()


if __name__ == "__main__":
    asyncio.run(main())
