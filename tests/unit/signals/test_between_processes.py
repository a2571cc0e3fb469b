"""Hints between processes: over sockets next to a SQLite file, and over Postgres."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from headgate.base.clock import SystemClock
from headgate.signals.postgres import PostgresSignal
from headgate.signals.sqlite import SqliteSignal
from tests.unit.signals.listeners import Process, running

Make = Callable[[str], Process[Any]]


async def _nobody_commits() -> int:
    return 0


@pytest.fixture(params=["socket", "postgres"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes processes by their names."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        yield lambda name: Process(PostgresSignal(url, SystemClock(), origin=name))
        return
    # Short enough for addresses of sockets.
    with TemporaryDirectory(prefix="headgate-") as folder:
        file = Path(folder) / "jobs.db"
        yield lambda name: Process(SqliteSignal(file, _nobody_commits, SystemClock(), origin=name))


@pytest.fixture
async def processes(make: Make) -> AsyncIterator[tuple[Process[Any], ...]]:
    """Two processes that hear each other."""
    async with running(make("here"), make("there")) as both:
        yield both


async def test_an_announcement_reaches_the_other_process_and_ones_own_listeners_once(
    processes: tuple[Process[Any], ...],
) -> None:
    # Given an announcement, which this process hears at once
    here, there = processes
    await here.signal.announce("lane.hot")
    assert here.hot.nudges == 1

    # When its echo has come back: what another sends after hearing it comes behind it
    await there.hot.heard()
    assert there.cold.nudges == 0
    await there.signal.announce("lane.cold")
    await here.cold.heard()

    # Then the echo was not heeded, and what follows closely is sent too
    assert here.hot.nudges == 1
    await here.signal.announce("lane.hot")
    await there.hot.heard()


async def test_many_announcements_are_gathered_into_few(
    processes: tuple[Process[Any], ...], request: pytest.FixtureRequest
) -> None:
    here, there = processes

    # When one topic is announced a hundred times, and then another
    for _ in range(100):
        await here.signal.announce("lane.hot")
    await here.signal.announce("lane.cold")
    await there.cold.heard()

    # Then the other process heard of the first a few times at most; over a socket, once
    over_socket = isinstance(here.signal, SqliteSignal)
    assert 1 <= there.hot.nudges <= (1 if over_socket else 3)


async def test_what_waits_is_sent_before_a_process_leaves(
    make: Make, processes: tuple[Process[Any], ...]
) -> None:
    async with running(make("leaving")) as (leaving,):
        await leaving.signal.announce("lane.hot")

    await processes[1].hot.heard()


async def test_a_process_that_has_not_started_may_announce_and_stop(
    make: Make, processes: tuple[Process[Any], ...]
) -> None:
    early = make("early")
    await early.signal.announce("lane.hot")
    assert early.hot.nudges == 1
    async with running(early):
        if not isinstance(early.signal, SqliteSignal):
            await processes[1].hot.heard()

    await early.signal.stop()
    await make("never").signal.stop()
