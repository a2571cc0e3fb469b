"""Limiters on every backend and the outbox, for tests that hold all to the same promises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from headgate.base.clock import ManualClock
from headgate.ports.limiter import Limiter
from headgate.store.sql.database import Database
from headgate.store.sql.limiter import SqlLimiter
from headgate.store.sql.outbox import SqlOutbox
from headgate.store.sql.tables import budgets
from tests import limiters


@pytest.fixture
async def opened() -> AsyncIterator[limiters.Opened]:
    """Closes what the test opens."""
    made = limiters.Opened()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(params=limiters.KINDS)
def bench(
    request: pytest.FixtureRequest, opened: limiters.Opened, clock: ManualClock, tmp_path: Path
) -> limiters.Bench:
    """Each backend in turn, empty, at five past noon: far from the edge of any window."""
    clock.advance(300)
    match request.param:
        case "sqlite":
            template = request.getfixturevalue("store_file")
            return limiters.sqlite_bench(opened, template, tmp_path / "budgets.db", clock)
        case "postgres":
            return limiters.postgres_bench(opened, request.getfixturevalue("store_url"), clock)
        case "redis":
            server = request.getfixturevalue("valkey_server")
            return limiters.redis_bench(opened, server.url, clock)
        case _:
            return limiters.memory_bench(clock)


@pytest.fixture
async def limiter(bench: limiters.Bench) -> Limiter:
    """A limiter that has counted nothing."""
    made = await bench.another()
    if isinstance(made, SqlLimiter):
        await made._database.write(lambda tx: tx.execute(delete(budgets)))
    return made


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> SqlOutbox:
    """An empty outbox, on each database in turn."""
    return SqlOutbox(database, clock)
