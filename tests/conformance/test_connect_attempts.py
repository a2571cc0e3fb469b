"""Attempts to connect on every database: single use, by whoever began it, for a while."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.ports.connections.store import ConnectAttempt, ConnectAttemptStore
from headgate.store.sql.connections.attempts import SqlConnectAttempts
from headgate.store.sql.engine.database import Database
from headgate.store.sql.tables import connect_attempts
from tests.store_bundles import Stores

TERM = timedelta(seconds=60)


@pytest.fixture
def attempts(any_stores: Stores) -> ConnectAttemptStore:
    return any_stores.attempts


def attempt(state_hash: str = "hash", **fields: Any) -> ConnectAttempt:
    given = {
        "session_hash": "session",
        "user_id": "ada",
        "source": "strava",
        "connection_id": None,
        "redirect_uri": "https://app.example/callback",
        "sealed_verifier": b"\x00\xff",
    }
    return ConnectAttempt(state_hash=state_hash, **{**given, **fields})


async def test_an_attempt_is_taken_once(attempts: ConnectAttemptStore) -> None:
    await attempts.begin(attempt(), term=TERM)

    taken = await asyncio.gather(
        *(attempts.take("hash", session_hash="session", user_id="ada") for _ in range(5))
    )

    assert [each for each in taken if each is not None] == [attempt()]


async def test_nobody_else_takes_an_attempt_or_spends_it(attempts: ConnectAttemptStore) -> None:
    for state_hash, session_hash, user_id in (
        ("other", "session", "ada"),
        ("hash", "other", "ada"),
        ("hash", "session", "bob"),
    ):
        await attempts.begin(attempt(), term=TERM)

        assert await attempts.take(state_hash, session_hash=session_hash, user_id=user_id) is None
        assert await attempts.take("hash", session_hash="session", user_id="ada") == attempt()


async def test_an_attempt_that_ran_out_is_not_taken(
    attempts: ConnectAttemptStore, clock: ManualClock
) -> None:
    await attempts.begin(attempt(), term=TERM)
    clock.advance(TERM.total_seconds() - 1)
    await attempts.begin(attempt("next"), term=TERM)
    clock.advance(1)

    assert await attempts.take("hash", session_hash="session", user_id="ada") is None
    assert await attempts.take("next", session_hash="session", user_id="ada") is not None


async def test_an_attempt_that_ran_out_is_deleted_in_passing(
    clock: ManualClock, database: Database
) -> None:
    attempts = SqlConnectAttempts(database)
    await attempts.begin(attempt(), term=TERM)
    clock.advance(TERM.total_seconds())

    assert await attempts.take("hash", session_hash="session", user_id="ada") is None
    await attempts.begin(attempt("next"), term=TERM)
    left = await database.read(lambda tx: tx.execute(connect_attempts.select()).all())
    assert [row.state_hash for row in left] == ["next"]
