"""Plans of schedules: with 20,000 connections and a month of ticks, look-ups are from indexes.

The statements are those that the store sends, caught on their way and given to EXPLAIN.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, event

from headgate.model.schedule import TickKind
from headgate.store.sql.database import Database
from headgate.store.sql.schedules import SqlSchedules
from tests.conformance.crowds import (
    crowded_database,
    crowded_server,
    crowded_sqlite,
    fill_by,
    half_hours,
)
from tests.conformance.schedules import DAY, NIGHTLY, QUERY, new_tick
from tests.stores import START

CONNECTIONS, TICKS = 20_000, 30
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
        'job_' || n, 'user_' || (n % 20000), 'connection_' || (n % 20000), 'notes', 'roam', 'full',
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
    INSERT INTO headgate_ticks (
        schedule, tick, kind, fired_at, queued, skipped, missed, worker
    )
    SELECT 'nightly', {now} - n * {day}, 'cron', {now}, 9000, 1000, 0, 'w' FROM {numbers}
"""
_TICK_USERS = """
    INSERT INTO headgate_tick_users (schedule, tick, connection_id, user_id, job_id, reason)
    SELECT 'nightly', {now} - (n % 30 + 1) * {day}, 'connection_' || (n / 30), 'user_' || (n / 30),
        'job_' || (n % 100000), CASE WHEN n / 30 % 10 = 0 THEN 'inactive' END
    FROM {numbers}
"""


def fill(tx: Connection) -> None:
    """Connections with their users and jobs, and a month of ticks for half of them."""
    day = "INTERVAL '1 day'" if tx.dialect.name == "postgresql" else "86400000000"
    fill_by(tx, _CONNECTIONS, _USERS, rows=CONNECTIONS)
    fill_by(tx, _JOBS, rows=5 * CONNECTIONS)
    fill_by(tx, _TICKS.replace("{day}", day), rows=TICKS)
    fill_by(tx, _TICK_USERS.replace("{day}", day), rows=TICKS * CONNECTIONS // 2)


later = half_hours()


@pytest.fixture(scope="module")
def crowded_url(postgres_url: str) -> str:
    names = ("connections", "users", "jobs", "ticks", "tick_users")
    tables = [f"headgate_{name}" for name in names]
    return crowded_server(postgres_url, "headgate_schedule_plans", fill, *tables)


@pytest.fixture(scope="module")
def crowded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowded_sqlite(tmp_path_factory.mktemp("plans"), fill)


@pytest.fixture(params=["sqlite", "postgres"])
def crowded(request: pytest.FixtureRequest) -> Database:
    return crowded_database(request, later())


@pytest.fixture
async def schedules(crowded: Database) -> AsyncIterator[SqlSchedules]:
    await crowded.open()
    schedules = SqlSchedules(crowded)
    await schedules.declare([NIGHTLY])
    yield schedules
    await crowded.close()


@contextmanager
def caught() -> Iterator[list[tuple[str, Any]]]:
    """Every statement that is sent while inside, with its values."""
    sent: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if "headgate_" in statement and not statement.startswith("INSERT"):
            sent.append((statement, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def plan(database: Database, statement: str, parameters: Any) -> str:
    """How the database would answer, given these values."""

    def explain(tx: Connection) -> list[str]:
        how = "EXPLAIN QUERY PLAN" if tx.dialect.name == "sqlite" else "EXPLAIN"
        rows = tx.exec_driver_sql(f"{how} {statement}", parameters)
        return [str(row[-1]) for row in rows]

    return "\n".join(await database.read(explain))


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


@pytest.mark.parametrize(
    "ask",
    [
        ask_states,
        ask_candidates,
        ask_ages,
        ask_users_as_candidates,
        fire,
        ask_tick_users,
        ask_skips,
        ask_history,
        prune,
    ],
)
async def test_nothing_walks_over_all_rows(
    ask: Callable[[SqlSchedules], Awaitable[None]], schedules: SqlSchedules
) -> None:
    with caught() as sent:
        await ask(schedules)

    assert sent
    for statement, parameters in sent:
        told = await plan(schedules.database, statement, parameters)
        assert not _FULL_SCAN.search(told), f"{statement}\n{told}"


async def test_the_outcomes_of_a_day_read_the_users_of_that_day_alone(
    schedules: SqlSchedules,
) -> None:
    with caught() as sent:
        assert await schedules.outcomes_since("nightly", START - DAY)
        await schedules.failing_users("nightly", START - DAY, least=3, limit=10)

    # Of ten thousand jobs among a hundred thousand, a database may well read all.
    for statement, parameters in sent:
        told = await plan(schedules.database, statement, parameters)
        assert not re.search(r"Seq Scan on headgate_tick_users|SCAN headgate_tick_users", told), (
            told
        )
