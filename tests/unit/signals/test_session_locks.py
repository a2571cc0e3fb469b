"""The locks of workers on Postgres: free for a while when the process has died, and not before."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from headgate.base.clock import ManualClock, SystemClock
from headgate.signals.postgres import PostgresSignal
from headgate.signals.session_locks import (
    AFTER_LOSS_S,
    LONG_PATIENCE_S,
    PATIENCE_S,
    SessionLocks,
)
from tests import stores
from tests.stores import START
from tests.unit.signals.listeners import Listener


class Session:
    """One worker's session and its lock, by a clock that the test sets."""

    def __init__(self, url: str, worker: str, clock: ManualClock) -> None:
        self._url = url
        self.worker = worker
        self.locks = SessionLocks(clock)
        self.connection: Any = None

    async def connect(self) -> None:
        self.locks.lose_session()
        self.connection = await asyncpg.connect(self._url)
        self.locks.name_worker(self.worker)
        await self.locks.take(self.connection)

    async def end(self) -> None:
        """End the session, as the death of its process does; when the server knows it."""
        pid = self.connection.get_server_pid()
        await stores.execute_on(self._url, f"SELECT pg_terminate_backend({pid}, 10000)")
        await self.connection.close()

    async def dead(self, *workers: str) -> list[str]:
        return list(await self.locks.find_dead(self.connection, workers))


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all sessions."""
    return ManualClock(START)


@pytest.fixture
async def sessions(postgres_url: str, clock: ManualClock) -> AsyncIterator[tuple[Session, Session]]:
    """Two workers with their locks."""
    both = [Session(postgres_url, worker, clock) for worker in ("worker_1", "worker_2")]
    for each in both:
        await each.connect()
    yield both[0], both[1]
    for each in both:
        await each.connection.close()


async def test_a_worker_is_dead_when_its_lock_was_free_at_two_looks(
    sessions: tuple[Session, Session], clock: ManualClock
) -> None:
    # Given two workers, of which each sees that the other lives
    one, two = sessions
    assert one.locks.held and two.locks.held
    assert await one.dead("worker_2") == await two.dead("worker_1") == []

    # When the second has died, then it is not dead at once
    await two.end()
    assert await one.dead("worker_2") == []
    clock.advance(PATIENCE_S - 0.1)
    assert await one.dead("worker_2") == []

    # But after a while
    clock.advance(0.1)
    assert await one.dead("worker_2") == ["worker_2"]


async def test_a_worker_that_lost_its_session_is_alive_when_it_is_back_in_time(
    sessions: tuple[Session, Session], clock: ManualClock
) -> None:
    # Given a worker whose session is seen to be gone
    one, two = sessions
    await two.end()
    assert await one.dead("worker_2") == []

    # When it connects again before the next look
    await two.connect()
    clock.advance(PATIENCE_S)
    assert await one.dead("worker_2") == []

    # Then the next loss counts anew
    await two.end()
    assert await one.dead("worker_2") == []


async def test_who_has_just_connected_itself_judges_nobody_by_what_it_saw_before(
    sessions: tuple[Session, Session], clock: ManualClock
) -> None:
    # Given a server that ends all sessions, after one worker has found the other's lock free
    one, two = sessions
    await two.end()
    await one.dead("worker_2")
    await one.end()
    clock.advance(PATIENCE_S)

    # When that worker is the first that is back, then the other has time again
    await one.connect()
    assert await one.dead("worker_2") == []

    # More than usual, because the server may have restarted for both
    clock.advance(LONG_PATIENCE_S - 0.1)
    assert await one.dead("worker_2") == []
    clock.advance(0.1)
    assert await one.dead("worker_2") == ["worker_2"]


async def test_after_a_long_outage_others_have_as_much_time_to_be_back_until_it_is_forgotten(
    sessions: tuple[Session, Session], clock: ManualClock
) -> None:
    # Given a server that was away for longer than the loss of a session counts
    one, two = sessions
    for each in sessions:
        await each.end()
        each.locks.lose_session()
    clock.advance(2 * AFTER_LOSS_S)

    # When one worker is back, then it waits for the other as after a short outage
    await one.connect()
    assert await one.dead("worker_2") == []
    clock.advance(LONG_PATIENCE_S - 0.1)
    assert await one.dead("worker_2") == []
    await two.connect()
    clock.advance(LONG_PATIENCE_S)
    assert await one.dead("worker_2") == []

    # And after a while the loss is forgotten
    clock.advance(AFTER_LOSS_S - LONG_PATIENCE_S)
    await two.end()
    assert await one.dead("worker_2") == []
    clock.advance(PATIENCE_S)
    assert await one.dead("worker_2") == ["worker_2"]


async def test_a_lock_is_held_in_a_new_session_at_once_and_one_that_is_freed_is_free(
    sessions: tuple[Session, Session],
) -> None:
    one, two = sessions
    old = one.connection

    # A worker need not wait for the end of its old session.
    await one.connect()
    assert one.locks.held
    await old.close()

    await two.locks.free(two.connection)
    assert not two.locks.held
    await one.dead("worker_2")
    assert "worker_2" in one.locks._free_since_s


class Pooled:
    """A connection through a pooler, which names itself where the server names a session."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def get_server_pid(self) -> int:
        return -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_behind_a_pooler_nobody_holds_a_lock_and_nobody_is_judged(
    sessions: tuple[Session, Session], clock: ManualClock
) -> None:
    one, two = sessions
    one.locks.lose_session()
    one.connection = Pooled(one.connection)

    await one.locks.take(one.connection)

    assert not one.locks.held
    await two.end()
    assert await one.dead("worker_2") == []
    clock.advance(PATIENCE_S)
    assert await one.dead("worker_2") == []


async def test_a_signal_takes_its_lock_again_when_its_line_was_cut(
    postgres_url: str,
) -> None:
    # Given a worker's signal with its lock
    signal = PostgresSignal(postgres_url, SystemClock(), origin="process_a")
    await signal.start()
    await signal.liveness.hold("worker_1")
    assert signal.liveness.held
    first = signal._listener._connection
    assert first is not None

    # When the server cuts the line, and it was made again
    cut = first.get_server_pid()
    listener = Listener()
    signal.subscribe("lane.hot", listener)
    await stores.execute_on(postgres_url, f"SELECT pg_terminate_backend({cut}, 10000)")
    await listener.heard()

    # Then the lock is held again, until it is released
    assert signal._listener._connection is not first
    assert signal.liveness.held
    assert list(await signal.liveness.find_dead([])) == []
    await signal.liveness.release()
    assert not signal.liveness.held
    await signal.stop()


async def test_a_worker_without_a_line_holds_its_lock_as_soon_as_there_is_one(
    postgres_url: str,
) -> None:
    signal = PostgresSignal(postgres_url, SystemClock(), origin="process_a")
    await signal.liveness.hold("worker_1")
    await signal.liveness.release()
    await signal.liveness.hold("worker_1")
    assert not signal.liveness.held

    await signal.start()

    assert signal.liveness.held
    await signal.stop()
