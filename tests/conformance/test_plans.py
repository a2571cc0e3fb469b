"""Plans: with 100,000 jobs and records, what the store asks often is still answered from an index.

The statements are those that the store sends, caught on their way and given to EXPLAIN: a copy of
them here would go on passing after the original had changed.
"""

import itertools
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from headgate.model import change
from headgate.model.job import Lane, Mode
from headgate.model.lease import Claim
from headgate.model.record import Record
from headgate.model.states import JobState
from headgate.ports.jobs.store import ChunkWork, JobFilter
from headgate.ports.records.store import RecordFilter, RecordPosition
from headgate.store.sql.engine.postgres import PostgresDatabase
from tests import stores
from tests.conformance.crowds import fill_by
from tests.conformance.query_plans import Ask, Crowd, check_generic_plans, check_plans
from tests.store_bundles import SqlStores
from tests.stores import LEASE, START, new_job, tally

JOBS = 20_000
RUNS = 2
DAY = timedelta(days=1)

#: Of every thousand jobs, so many are in the state; all others have succeeded.
_STATES = """
    CASE WHEN n % 1000 < 20 THEN 'pending' WHEN n % 1000 < 40 THEN 'pending'
         WHEN n % 1000 < 50 THEN 'running' WHEN n % 1000 < 60 THEN 'paused'
         WHEN n % 1000 < 62 THEN 'cancelling' WHEN n % 1000 < 80 THEN 'failed'
         ELSE 'success' END
"""
#: As long as that of a real job: the plan of a count depends on how wide the rows are.
_SUMMARY = """
    {{{{"pace": {{{{"own_s": 0.5, "units": 1.0, "chunks": 1.0, "work_s": {{{{"source": 0.5}}}},
    "seconds": 0.5, "squares": 0.25, "ended_at": "2026-01-05T12:00:00Z"}}}}, "chunks": 1}}}}
""".format()
_FILL = f"""
    INSERT INTO headgate_jobs (
        id, user_id, connection_id, sync, source, mode, lane, request_hash, params, state, reason,
        wake_at, turn, steps, attempts, recent_errors, crashes, deferrals, pauses, probe,
        pause_requested, rerun, token, lease_until, progress, summary, created_at, updated_at,
        finished_at
    )
    SELECT
        'filled_' || n, 'user_' || (n % 997), 'filled_' || n, 'notes', 'source_' || (n % 7),
        'full', CASE WHEN n % 3 = 0 THEN 'hot' ELSE 'cold' END, 'request', '{{{{}}}}', state,
        CASE WHEN state = 'paused' THEN 'breaker' ELSE 'queued' END,
        CASE WHEN state IN ('pending', 'paused', 'cancelling') THEN {{later}} END,
        CASE WHEN n % 1000 < 20 THEN 1 + n / 997 END, 0, 0, '[]', 0, 0, 0, FALSE, FALSE, FALSE, 1,
        CASE WHEN state IN ('running', 'cancelling') THEN {{later}} END,
        '{{{{}}}}', '{_SUMMARY}', {{now}}, {{now}},
        CASE WHEN state IN ('success', 'failed') THEN {{now}} END
    FROM (SELECT n, {_STATES} AS state FROM {{numbers}}) AS numbered
"""
_FILL_RECORDS = """
    INSERT INTO headgate_records (sync, connection_id, key, data, hash, created_at, updated_at)
    SELECT 'notes', 'filled_' || (n % 1000), 'record_' || n, '{{}}', 'hash', {now}, {now}
    FROM {numbers}
"""
_FILL_OWNERS = """
    INSERT INTO headgate_record_owners (sync, connection_id, user_id, created_at)
    SELECT 'notes', 'filled_' || (n - 1), 'user_' || (n % 100), {now} FROM {numbers}
    WHERE n <= 1000
"""
_FILL_EVENTS = """
    INSERT INTO headgate_job_events (job_id, at, kind, data)
    SELECT 'filled_' || (n % 1000), {now}, 'chunk', '{{}}'
    FROM {numbers}
"""


def fill(tx: Connection) -> None:
    """Many ended jobs; four hundred each waiting and asleep, two hundred each held and paused.

    And records and events, a hundred for each of a thousand connections, twenty for as many jobs.
    """
    fill_by(tx, _FILL, _FILL_EVENTS, rows=JOBS)
    fill_by(tx, _FILL_RECORDS, _FILL_OWNERS, rows=5 * JOBS)


_keys = itertools.count(1)


# ---- what the store asks -----------------------------------------------------------------------


#: A walk over all jobs or records. On SQLite it begins with SCAN, where a partial index is as good
#: as none.
_FULL_SCAN = re.compile(
    r"Seq Scan on headgate_(jobs|records|job_events)"
    r"|SCAN (headgate_jobs|other|each_job|headgate_records|headgate_job_events)"
    r"(?! USING (COVERING )?INDEX ix_headgate_jobs_(probing|claimed|cancelling|paused))"
)


async def submit_many(store: SqlStores) -> None:
    keys = [f"key_{next(_keys)}" for _ in range(3)]
    await store.jobs.submit_many([new_job(user_id="user_3", key=key) for key in keys])


async def settle(store: SqlStores) -> None:
    [job] = (await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)).jobs
    await store.jobs.settle(change.release(job))


async def settle_records(store: SqlStores) -> None:
    [job] = (await store.jobs.claim(Lane.COLD, worker="w", limit=1, lease=LEASE)).jobs
    new_records = [Record(f"record_{number}", {}) for number in range(100)]
    await store.jobs.settle(change.advance(job, tally(), {}), ChunkWork(records=new_records))


async def heartbeat(store: SqlStores) -> None:
    claimed = (await store.jobs.claim(Lane.COLD, worker="w", limit=10, lease=LEASE)).jobs
    await store.jobs.extend([Claim(job.id, job.token) for job in claimed], lease=LEASE)


def lists(**asked: Any) -> Callable[[SqlStores], Awaitable[None]]:
    """Two pages of a list; what is not asked for has many jobs, newer than those that are."""

    async def run(store: SqlStores) -> None:
        for before in (None, "filled_5"):
            await store.jobs.list_jobs(JobFilter(**asked), limit=20, before=before)

    return run


_MINE, _NOTES = {"user_id": "user_3"}, {"sync": "notes"}
_FAILED = {"states": (JobState.FAILED, JobState.CANCELLED)}
_ALIVE = {"states": (JobState.PENDING, JobState.RUNNING)}
_BACKFILLS = {"mode": Mode.HISTORY}
_HERE = {"connection_id": "filled_3"}
#: Filters, by the indexes that have what they ask for.
LISTS: dict[tuple[str, ...], list[dict[str, Any]]] = {
    ("of_kind",): [_FAILED, _ALIVE, _BACKFILLS, _BACKFILLS | _ALIVE, _NOTES, _NOTES | _FAILED],
    ("of_user",): [_MINE, _MINE | _FAILED, _MINE | _ALIVE, _MINE | _NOTES, _MINE | _BACKFILLS],
    ("of_connection",): [_HERE | _FAILED, _HERE | _NOTES | _FAILED],
    ("active",): [_HERE | _ALIVE, _HERE | _NOTES | _ALIVE],
    ("of_connection", "active"): [_HERE, _HERE | _NOTES, _HERE | _MINE, _HERE | _BACKFILLS],
}


#: Every filter at once: by time, and by the beginning of a key.
_NARROW: dict[str, Any] = {"key_prefix": "record_9", "since": START, "until": START + DAY}
_HALFWAY = RecordPosition("filled_500", "record_500")


async def list_records(store: SqlStores) -> None:
    first = await store.records.find_records(RecordFilter(sync="notes"), limit=50)
    await store.records.find_records(RecordFilter(sync="notes"), after=first.after, limit=50)


async def list_records_of_user(store: SqlStores) -> None:
    mine = RecordFilter(sync="notes", user_id="user_7")
    first = await store.records.find_records(mine, limit=150)
    assert first.after is not None and len(first.rows) == 150
    await store.records.find_records(mine, after=first.after, limit=50)


async def list_records_of_connection(store: SqlStores) -> None:
    one = RecordFilter(sync="notes", connection_id="filled_500")
    await store.records.find_records(one, after=_HALFWAY, limit=50)


async def filter_records(store: SqlStores) -> None:
    for user_id, connection_id in ((None, None), ("user_7", None), (None, "filled_500")):
        narrow = RecordFilter(sync="notes", user_id=user_id, connection_id=connection_id, **_NARROW)
        await store.records.find_records(narrow, after=_HALFWAY, limit=50)


async def find_record(store: SqlStores) -> None:
    one = RecordFilter(sync="notes", user_id="user_7")
    [row] = await store.records.list_under_key(one, "record_6", limit=10)
    assert (row.connection_id, row.user_id) == ("filled_6", "user_7")


#: A primary key's index has another name on either database.
_BY_JOB = "(pk_headgate_jobs|sqlite_autoindex_headgate_jobs_1)"
_BY_RECORD = "(pk_headgate_records|sqlite_autoindex_headgate_records_1)"


def _newest_of(*indexes: str) -> str:
    """Each job of a list is looked up, and its id was read from all of these indexes."""
    named = "".join(rf"(?=.*\b(ix|uq)_headgate_jobs_{name}\b)" for name in indexes)
    return rf"(?s)\A{named}.*\b{_BY_JOB}\b"


#: And nothing is sorted: a page reads no more than its rows.
_IN_ORDER_OF_KEYS = rf"(?s)\A(?!.*(Sort|TEMP B-TREE)).*\b{_BY_RECORD}\b"
#: The rows of a batch come as a table: before the statement on SQLite, in it on Postgres.
_GIVEN = r"WITH given\([^)]*\) AS \(VALUES .*\)"
_LOOK_FOR_TURNS = "SELECT given.value"
_TURNS = {"ix_headgate_jobs_turn_of_user", "ix_headgate_jobs_queued"}
ASKS: dict[str, Ask[SqlStores]] = {
    "claim": Ask(
        lambda store: store.jobs.claim(Lane.COLD, worker="w", limit=10, lease=LEASE),
        {
            # On Postgres all of it is one statement.
            "WITH (sleepers AS .* )?picked AS": {"ix_headgate_jobs_queued"},
            "(SELECT [?]|WITH .*look AS)": {"ix_headgate_jobs_asleep"},
            "WITH sleepers AS .*UPDATE headgate_jobs SET turn": {
                "ix_headgate_jobs_asleep",
                *_TURNS,
            },
        },
    ),
    "submit": Ask(
        lambda store: store.jobs.submit(new_job(user_id="user_3")),
        {"(WITH job AS .)?INSERT INTO headgate_jobs": _TURNS},
    ),
    "submit many": Ask(
        submit_many,
        {
            f"({_GIVEN} )?SELECT given.place, .*request_hash": {"uq_headgate_jobs_key"},
            f"({_GIVEN} )?SELECT given.place, .*connection_id": {"uq_headgate_jobs_active"},
            _LOOK_FOR_TURNS: _TURNS,
        },
    ),
    "settle": Ask(
        settle, {_LOOK_FOR_TURNS: _TURNS, f"({_GIVEN} )?UPDATE headgate_jobs SET state": {_BY_JOB}}
    ),
    "settle records": Ask(settle_records, {'SELECT headgate_records."?key': {_BY_RECORD}}),
    "list records": Ask(list_records, {"SELECT headgate_records": _IN_ORDER_OF_KEYS}),
    "list records of a user": Ask(
        list_records_of_user,
        {
            "SELECT headgate_record_owners": "ix_headgate_record_owners_of_user",
            "SELECT headgate_records": _IN_ORDER_OF_KEYS,
        },
    ),
    "list records of a connection": Ask(
        list_records_of_connection, {"SELECT headgate_records": _IN_ORDER_OF_KEYS}
    ),
    # The rows between two keys may be sorted: they are at most so many.
    "filter records": Ask(
        filter_records,
        {
            "SELECT headgate_records.sync": {_BY_RECORD},
            "SELECT headgate_records.connection_id": _IN_ORDER_OF_KEYS,
        },
    ),
    "find record": Ask(find_record, {"SELECT headgate_records": {_BY_RECORD}}),
    "heartbeat": Ask(heartbeat, {"WITH mine AS": {_BY_JOB}}),
    "expired": Ask(
        lambda store: store.jobs.list_expired(limit=100),
        {
            "SELECT .*lease_until <": {"ix_headgate_jobs_claimed"},
            "SELECT .*wake_at <": {"ix_headgate_jobs_cancelling"},
        },
    ),
    "thawable": Ask(
        lambda store: store.breakers.list_thawable(limit=100),
        {
            "SELECT headgate_jobs.id": {"ix_headgate_jobs_paused"},
            "SELECT DISTINCT": {"ix_headgate_jobs_paused"},
        },
    ),
    "release source": Ask(
        lambda store: store.breakers.release_provider("source_3", stagger=LEASE, limit=2),
        {"SELECT headgate_jobs.id": {"ix_headgate_jobs_paused"}},
    ),
    "next sweep": Ask(
        lambda store: store.jobs.next_sweep_s(),
        {
            "SELECT": {
                "ix_headgate_jobs_claimed",
                "ix_headgate_jobs_cancelling",
                "ix_headgate_jobs_paused",
            }
        },
    ),
    "oldest due": Ask(
        lambda store: store.jobs.oldest_due_s(),
        {"SELECT": {"ix_headgate_jobs_queued", "ix_headgate_jobs_asleep"}},
    ),
    "open breakers": Ask(
        lambda store: store.breakers.open_breakers(), {"SELECT": {"ix_headgate_jobs_paused"}}
    ),
    "count jobs": Ask(
        lambda store: store.jobs.count_jobs(), {"SELECT": {"ix_headgate_jobs_of_kind"}}
    ),
    "last events": Ask(
        lambda store: store.events.last_events([f"filled_{number}" for number in range(1, 21)]),
        {"SELECT headgate_jobs.id": {_BY_JOB, "ix_headgate_job_events_job"}},
    ),
    **{
        f"list by {' and '.join(asked)} in {' and '.join(indexes)} {number}": Ask(
            lists(**asked), {"(SELECT|WITH RECURSIVE syncs)": _newest_of(*indexes)}
        )
        for indexes, every in LISTS.items()
        for number, asked in enumerate(every)
    },
}


CROWD = Crowd(
    fill=fill,
    others=("headgate_job_events",),
    tables=("headgate_jobs", "headgate_records", "headgate_record_owners"),
    full_scan=_FULL_SCAN,
    asks=ASKS,
    store=lambda database: SqlStores(database, stores.SYNCS),
)


async def test_what_is_asked_often_stands_on_an_index(crowded: SqlStores) -> None:
    await check_plans(CROWD, crowded)


async def test_a_generic_plan_stands_on_the_same_indexes(crowded_url: str) -> None:
    await check_generic_plans(CROWD, crowded_url)


async def seq_scans(url: str) -> object:
    query = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'headgate_jobs'"
    return await stores.execute_on(url, query)


async def test_runs_with_generic_plans_never_walk_over_all_jobs(
    postgres_url: str, crowded_url: str
) -> None:
    # Given a Postgres that keeps to generic plans
    name = make_url(crowded_url).database
    await stores.execute_on(
        postgres_url, f'ALTER DATABASE "{name}" SET plan_cache_mode = force_generic_plan'
    )
    before = await seq_scans(crowded_url)
    database = PostgresDatabase(crowded_url, CROWD.clock, server_time=False, pool_size=1)
    await database.open()
    try:
        # When everything is asked twice on one connection, which may scan
        await database.autocommit(lambda tx: tx.exec_driver_sql("SET enable_seqscan = on"))
        store = SqlStores(database, stores.SYNCS)
        for _ in range(RUNS):
            for ask in ASKS.values():
                await ask.run(store)
        await database.read(lambda tx: tx.exec_driver_sql("SELECT pg_stat_force_next_flush()"))
    finally:
        await database.close()
        await stores.execute_on(postgres_url, f'ALTER DATABASE "{name}" RESET plan_cache_mode')

    # Then Postgres has counted not one walk over the table
    assert await seq_scans(crowded_url) == before
