"""Plans of schedules: with 4,000 connections and a month of ticks, look-ups are from indexes.

The statements are those that the store sends, caught on their way and given to EXPLAIN.
"""

import re
from datetime import timedelta

from msgspec.structs import replace
from sqlalchemy import Connection

from headgate.model.schedule import TickKind
from headgate.store.sql.schedules.store import SqlSchedules
from tests.conformance.crowds import fill_by
from tests.conformance.query_plans import Ask, Crowd, check_plans, plan
from tests.conformance.schedules import DAY, NIGHTLY, QUERY, new_tick
from tests.stores import START

CONNECTIONS, TICKS = 4_000, 30
#: Every second connection is one of the source's.
_CONNECTIONS = """
    INSERT INTO headgate_connections (
        id, user_id, source, state, reason, scopes, sealed_access, key_id, version, created_at,
        updated_at
    )
    SELECT 'connection_' || n, 'user_' || n, CASE WHEN n % 2 = 0 THEN 'roam' ELSE 'other' END,
        'active', 'connected', '[]', '', 'k1', 1, {now}, {now} FROM {numbers}
"""
_USERS = """
    INSERT INTO headgate_users (id, last_login_at, preferences, created_at, updated_at)
    SELECT 'user_' || n, {now}, '{{}}', {now}, {now} FROM {numbers}
"""
#: Five jobs for each connection have ended; one in a hundred connections has an active one.
_JOBS = """
    INSERT INTO headgate_jobs (
        id, user_id, connection_id, sync, source, mode, lane, request_hash, params, state, reason,
        wake_at, steps, attempts, recent_errors, crashes, deferrals, pauses, probe,
        pause_requested, rerun, token, progress, summary, created_at, updated_at, finished_at
    )
    SELECT
        'job_' || n, 'user_' || (n % 4000), 'connection_' || (n % 4000), 'notes', 'roam', 'full',
        'hot', 'request', '{{}}', state, 'queued', CASE WHEN state = 'pending' THEN {later} END,
        0, 0, '[]', 0, 0, 0, FALSE, FALSE, FALSE, 1, '{{}}', '{{}}', {now}, {now},
        CASE WHEN state <> 'pending' THEN {later} END
    FROM (
        SELECT n, CASE WHEN n < 200 THEN 'pending' WHEN n % 7 = 0 THEN 'failed'
            ELSE 'success' END AS state
        FROM {numbers}
    ) AS numbered
"""
_TICKS = """
    INSERT INTO headgate_ticks (schedule, tick, kind, fired_at, queued, skipped, missed, worker)
    SELECT 'nightly', {now} - n * {day}, 'cron', {now}, 9000, 1000, 0, 'w' FROM {numbers}
"""
_TICK_USERS = """
    INSERT INTO headgate_tick_users (schedule, tick, connection_id, user_id, job_id, reason)
    SELECT 'nightly', {now} - (n % 30 + 1) * {day}, 'connection_' || (n / 30), 'user_' || (n / 30),
        'job_' || (n % 20000), CASE WHEN n / 30 % 10 = 0 THEN 'inactive' END
    FROM {numbers}
"""


def fill(tx: Connection) -> None:
    """Connections with their users and jobs, and a month of ticks for half of them."""
    day = "INTERVAL '1 day'" if tx.dialect.name == "postgresql" else "86400000000"
    fill_by(tx, _CONNECTIONS, _USERS, rows=CONNECTIONS)
    fill_by(tx, _JOBS, rows=5 * CONNECTIONS)
    fill_by(tx, _TICKS.replace("{day}", day), rows=TICKS)
    fill_by(tx, _TICK_USERS.replace("{day}", day), rows=TICKS * CONNECTIONS // 2)


#: A walk over all rows of a table that has many; a page of candidates may read all users.
_FULL_SCAN = re.compile(
    r"Seq Scan on headgate_(jobs|tick_users|connections)"
    r"|SCAN (headgate_jobs|past|there|headgate_tick_users|headgate_connections)\b"
)


async def ask_candidates(schedules: SqlSchedules) -> None:
    _, found = await schedules.candidates(QUERY, after="connection_12", limit=500)
    assert len(found) == 500


async def ask_ages(schedules: SqlSchedules) -> None:
    query = replace(QUERY, ages=True, destination="other")
    _, found = await schedules.candidates(query, after=None, limit=500)
    assert all(each.succeeded_at is not None for each in found[:10])


async def ask_users_as_candidates(schedules: SqlSchedules) -> None:
    _, found = await schedules.candidates(replace(QUERY, source=None), after=None, limit=500)
    assert len(found) == 500


async def ask_states(schedules: SqlSchedules) -> None:
    await schedules.states(["nightly"])


async def fire(schedules: SqlSchedules) -> None:
    now, _ = await schedules.states([])
    asked = {"planned": None, "kind": TickKind.MANUAL, "asked_by": "test"}
    tick = new_tick(range(30_001, 30_101), tick=now, **asked)  # type: ignore[arg-type]
    assert await schedules.fire(tick) is not None
    again = new_tick(range(30_001, 30_101), tick=now + timedelta(seconds=1), **asked)  # type: ignore[arg-type]
    fired = await schedules.fire(again)
    assert fired is not None and len(fired.overtaken) == 100


async def ask_tick_users(schedules: SqlSchedules) -> None:
    assert len(await schedules.tick_users("nightly", START - DAY, limit=50)) == 50


async def ask_skips(schedules: SqlSchedules) -> None:
    assert await schedules.skip_counts("nightly", START - DAY)


async def ask_history(schedules: SqlSchedules) -> None:
    assert await schedules.ticks_since("nightly", START - DAY)
    assert await schedules.counts_since(START - DAY)
    assert await schedules.ticks("nightly", limit=5)


async def prune(schedules: SqlSchedules) -> None:
    assert await schedules.prune_ticks(older_than=29.5 * DAY, limit=100) == 100


_ASKS = (
    ask_states,
    ask_candidates,
    ask_ages,
    ask_users_as_candidates,
    fire,
    ask_tick_users,
    ask_skips,
    ask_history,
    prune,
)
CROWD = Crowd(
    fill=fill,
    tables=tuple(
        f"headgate_{n}"
        for n in ("schedules", "connections", "users", "jobs", "ticks", "tick_users")
    ),
    full_scan=_FULL_SCAN,
    asks={each.__name__: Ask(each, {}) for each in _ASKS},
    store=SqlSchedules,
)


async def test_nothing_walks_over_all_rows(crowded: SqlSchedules) -> None:
    await crowded.declare([NIGHTLY])
    await check_plans(CROWD, crowded)


async def test_the_outcomes_of_a_day_read_the_users_of_that_day_alone(
    crowded: SqlSchedules,
) -> None:
    names = ["nightly", "weekly"]
    with CROWD.caught() as sent:
        assert (await crowded.outcomes_since(names, START - DAY))["nightly"]
        await crowded.failing_users(names, START - DAY, least=3, limit=10)

    # Of two thousand jobs among twenty thousand, a database may well read all.
    for each in sent:
        told = await plan(crowded.database, each)
        assert not re.search(r"Seq Scan on headgate_tick_users|SCAN headgate_tick_users", told), (
            told
        )
