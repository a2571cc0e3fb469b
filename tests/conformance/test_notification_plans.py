"""Plans: among many troubles, what is asked often is still answered from an index."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from headgate.base.clock import ManualClock
from headgate.flow.notifications import Composer
from headgate.model import change
from headgate.model.job import Reason
from headgate.store.sql.database import Database
from headgate.store.sql.store import SqlStore
from tests import stores
from tests.conformance.crowds import crowded_database, crowded_server, crowded_sqlite, fill_by
from tests.conformance.query_plans import Sent, plan
from tests.notifying import BY_WEBHOOK
from tests.stores import START, SYNCS

ROWS = 50_000
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


@pytest.fixture(scope="module")
def crowded_url(postgres_url: str) -> str:
    return crowded_server(postgres_url, "headgate_troubles_plans", fill, "headgate_troubles")


@pytest.fixture(scope="module")
def crowded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowded_sqlite(tmp_path_factory.mktemp("plans"), fill)


@pytest.fixture(params=["sqlite", "postgres"])
def crowded(request: pytest.FixtureRequest) -> Database:
    # A day after everything in it.
    clock = ManualClock(START + timedelta(seconds=ROWS, hours=24))
    return crowded_database(request, clock)


@pytest.fixture
async def store(crowded: Database) -> AsyncIterator[SqlStore]:
    """A store on the crowded database."""
    await crowded.open()
    yield SqlStore(crowded, SYNCS, Composer(BY_WEBHOOK, {}))
    await crowded.close()


@contextmanager
def caught() -> Iterator[list[Sent]]:
    """Every statement that looks at troubles while inside."""
    sent: list[Sent] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if re.match(r"(SELECT|UPDATE|DELETE)\b.*\bheadgate_troubles\b", statement, re.DOTALL):
            sent.append(Sent(statement, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def fail(store: SqlStore) -> None:
    job = await stores.run_one(store)
    await stores.settled(store, change.fail(job, reason=Reason.REFUSED, error="no"))


async def succeed(store: SqlStore) -> None:
    job = await stores.run_one(store, connection_id="connection_77")
    await stores.settled(store, change.succeed(job, stores.tally(), {}))


async def look_for_pauses(store: SqlStore) -> None:
    assert await store.tell_paused(limit=5) == 5


async def list_of_user(store: SqlStore) -> None:
    assert await store.troubles(user_id="user_5", limit=10)


async def list_all(store: SqlStore) -> None:
    assert await store.troubles(limit=10, after=("connection_2", "notes"))


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (fail, "pk_headgate_troubles|sqlite_autoindex_headgate_troubles_1"),
        (succeed, "pk_headgate_troubles|sqlite_autoindex_headgate_troubles_1"),
        (look_for_pauses, "ix_headgate_troubles_paused"),
        (list_of_user, "ix_headgate_troubles_user"),
        (list_all, "pk_headgate_troubles|sqlite_autoindex_headgate_troubles_1"),
    ],
)
async def test_no_question_reads_the_whole_table(
    store: SqlStore, ask: Callable[[SqlStore], Awaitable[None]], index: str
) -> None:
    with caught() as sent:
        await ask(store)
    assert sent
    plans = [await plan(store.database, each) for each in sent]
    assert re.search(index, plans[0]), plans[0]
    for each in plans:
        assert "Seq Scan on headgate_troubles" not in each, each
        assert not re.search(r"SCAN headgate_troubles(?! USING)", each), each
