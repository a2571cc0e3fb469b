"""Plans that Postgres made while the tables were empty are still good when they are full.

Postgres keeps the plan of a prepared statement until a table is analyzed again. A queue is empty
most of the time, and then a scan of the whole table looks as good as an index.
"""

from headgate.base.clock import ManualClock
from headgate.model.job import Lane
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests import stores
from tests.store_bundles import SqlStores
from tests.stores import LEASE, START, new_job

USERS = 50
JOBS = 3_000
CLAIMS, CLAIMED = 20, 10
#: Postgres keeps a plan that fits all values from the sixth run on.
RUNS = 8

#: Rows that were read of the table, by whatever way.
_READ = """
    SELECT (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'headgate_jobs')
         + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'headgate_jobs')
"""


async def submit(store: SqlStores, name: str, count: int) -> None:
    """Submit so many jobs of some users by one call."""
    await store.jobs.submit_many(
        [
            new_job(
                user_id=f"user_{number % USERS}", connection_id=f"{name}_{number}", lane=Lane.HOT
            )
            for number in range(count)
        ]
    )


async def test_what_was_planned_for_an_empty_table_reads_few_rows_of_a_full_one(
    postgres_address: str,
) -> None:
    # Given a process that has claimed and submitted often, on a table that was analyzed while empty
    await stores.execute_on(
        postgres_address, "ALTER TABLE headgate_jobs SET (autovacuum_enabled = off)"
    )
    await stores.execute_on(postgres_address, "VACUUM (ANALYZE) headgate_jobs")
    # One connection, so that all statements are planned on it.
    database = PostgresDatabase(postgres_address, ManualClock(START), pool_size=1)
    await database.open()
    store = SqlStores(database, stores.SYNCS)
    for number in range(RUNS):
        await store.jobs.claim(Lane.HOT, worker="worker", limit=CLAIMED, lease=LEASE)
        await submit(store, f"early_{number}", 1)
        await store.jobs.submit(new_job(connection_id=f"single_{number}", lane=Lane.HOT))
        await stores.execute_on(postgres_address, "DELETE FROM headgate_jobs")

    # When many jobs come, and are claimed
    for number in range(3):
        await submit(store, f"late_{number}", JOBS // 3)
    for _ in range(CLAIMS):
        claimed = await store.jobs.claim(Lane.HOT, worker="worker", limit=CLAIMED, lease=LEASE)
        assert len(claimed.jobs) == CLAIMED
    # Postgres counts what a session did at its end, at the latest.
    await database.close()

    # Then no statement has read them all
    read = await stores.execute_on(postgres_address, _READ)
    assert int(str(read)) < 5 * JOBS, read
