"""Watching a SQLite file: another's commit is seen, one's own is not taken for it."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import text

from headgate.base.clock import ManualClock, SystemClock
from headgate.signals.sqlite import LOOK_EVERY_S, SqliteSignal
from headgate.signals.throttle import SEND_EVERY_S, SENDS_AT_ONCE
from headgate.store.sql.engine.sqlite import SqliteDatabase
from tests.stores import SOON_S, START
from tests.unit.signals.listeners import Listener, Process

_INSERT = "INSERT INTO words VALUES ('word')"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open file with one table."""
    database = SqliteDatabase(tmp_path / "words.db", ManualClock(START))
    await database.open()
    await database.write(lambda tx: tx.execute(text("CREATE TABLE words (word TEXT)")))
    yield database
    await database.close()


class Watched(Process[SqliteSignal]):
    """A signal on the database, whose looks the test takes itself."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.asked = 0

        async def foreign_commits() -> int:
            self.asked += 1
            return await database.foreign_commits()

        clock = ManualClock(START)
        super().__init__(SqliteSignal(database.path, foreign_commits, clock, origin="here"))

    async def look(self) -> int:
        """Look once; how many nudges each listener has had."""
        assert await self.signal._watch.run_once() == LOOK_EVERY_S
        assert self.hot.nudges == self.cold.nudges
        return self.hot.nudges


def commit_elsewhere(path: Path) -> None:
    """Commit on another connection, as another process would."""
    other = sqlite3.connect(path)
    other.execute(_INSERT)
    other.commit()
    other.close()


async def test_another_connections_commit_nudges_everybody_once(database: SqliteDatabase) -> None:
    # Given a watch that has looked, and asks nothing of the database while the file is quiet
    watched = Watched(database)
    for _ in range(10):
        assert await watched.look() == 0
    assert watched.asked == 1

    # When another connection commits
    commit_elsewhere(database.path)

    # Then everybody is nudged at the next look, once
    assert await watched.look() == 1
    assert await watched.look() == 1
    # And an announcement reaches this process at once
    await watched.signal.announce("lane.hot")
    assert [watched.hot.nudges, watched.cold.nudges] == [2, 1]


async def test_another_processs_commit_nudges_everybody(database: SqliteDatabase) -> None:
    # Given a watch that has looked once
    watched = Watched(database)
    assert await watched.look() == 0

    # When another process commits
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
    )
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, str(database.path), _INSERT],
        check=True,
        timeout=SOON_S,
    )

    # Then everybody is nudged at the next look
    assert await watched.look() == 1


async def test_ones_own_commit_nudges_nobody(database: SqliteDatabase) -> None:
    # Given a watch that has looked once
    watched = Watched(database)
    await watched.look()

    # When this process commits
    await database.write(lambda tx: tx.execute(text(_INSERT)))

    # Then the change is seen, and known for one's own
    assert await watched.look() == 0
    assert watched.asked == 2


async def test_anothers_commit_among_ones_own_is_not_missed(database: SqliteDatabase) -> None:
    watched = Watched(database)
    await watched.look()

    await database.write(lambda tx: tx.execute(text(_INSERT)))
    commit_elsewhere(database.path)
    await database.write(lambda tx: tx.execute(text(_INSERT)))

    assert await watched.look() == 1


async def test_the_first_look_nudges_nobody_whatever_came_before(database: SqliteDatabase) -> None:
    commit_elsewhere(database.path)

    assert await Watched(database).look() == 0


async def test_a_file_without_a_log_is_no_error(tmp_path: Path) -> None:
    clock = ManualClock(START)
    signal = SqliteSignal(tmp_path / "nothing.db", _nobody_commits, clock, origin="here")

    assert await signal._watch.run_once() == LOOK_EVERY_S


async def test_a_started_watch_looks_by_itself_and_stops(database: SqliteDatabase) -> None:
    # Given a watch that runs by itself, and has looked
    looked = asyncio.Event()

    async def foreign_commits() -> int:
        commits = await database.foreign_commits()
        looked.set()
        return commits

    signal = SqliteSignal(database.path, foreign_commits, SystemClock(), origin="here")
    listener = Listener()
    signal.subscribe("lane.hot", listener)
    await signal.start()
    async with asyncio.timeout(SOON_S):
        await looked.wait()

    # When another connection commits, then the listener hears of it
    commit_elsewhere(database.path)
    await listener.heard()
    await signal.stop()
    await signal.stop()


async def test_hints_that_follow_closely_are_throttled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process whose sends are noted
    clock, sent_s = ManualClock(START), list[float]()
    signal = SqliteSignal(tmp_path / "words.db", _nobody_commits, clock, origin="here")
    monkeypatch.setattr(signal._socket, "send", lambda topics: sent_s.append(clock.monotonic()))

    # When it announces one thing after another, without a rest
    for _ in range(3 * SENDS_AT_ONCE):
        await signal.announce("lane.hot")
        await signal._sender.run_once()

    # Then the first few were sent at once, and the others at even intervals
    first, later = sent_s[:SENDS_AT_ONCE], sent_s[SENDS_AT_ONCE - 1 :]
    assert SENDS_AT_ONCE > 1 and set(first) == {START.timestamp()}
    gaps = [after - before for before, after in pairwise(later)]
    assert gaps == pytest.approx([SEND_EVERY_S] * 2 * SENDS_AT_ONCE, abs=1e-4)


async def _nobody_commits() -> int:
    return 0
