"""Hints over Postgres: heard by every other process, by one's own once, and again after a cut."""

from collections.abc import AsyncIterator
from itertools import pairwise
from types import SimpleNamespace

import pytest

from headgate.base.clock import ManualClock, SystemClock
from headgate.signals.postgres import CHANNEL, PostgresSignal
from headgate.signals.throttle import SEND_EVERY_S, SENDS_AT_ONCE
from tests import stores
from tests.stores import START
from tests.unit.signals.listeners import Process, running

Connected = Process[PostgresSignal]


def backend(process: Connected) -> int:
    """The server's number for this process's connection."""
    connection = process.signal._listener._connection
    assert connection is not None
    return connection.get_server_pid()


@pytest.fixture
async def processes(postgres_url: str) -> AsyncIterator[tuple[Connected, ...]]:
    """Two processes that listen on one server."""
    signals = [PostgresSignal(postgres_url, SystemClock(), origin=f"process_{x}") for x in "ab"]
    async with running(*map(Process, signals)) as both:
        yield both


async def test_a_hint_that_a_commit_carries_is_understood_and_not_sent_again(
    processes: tuple[Connected, ...], postgres_url: str
) -> None:
    # Given a process that takes a hint, and somebody who sends it with a commit
    here, there = processes
    hint = here.signal.hint("lane.hot")
    assert hint is not None
    await stores.execute_on(postgres_url, f"SELECT pg_notify('{hint.name}', '{hint.payload}')")
    await there.hot.heard()

    # When it is announced as sent, and another topic after it
    await here.signal.announce("lane.hot", sent=True)
    await here.signal.announce("lane.cold")
    await there.cold.heard()

    # Then it came once, and this process was told too
    assert (there.hot.nudges, here.hot.nudges) == (1, 1)


async def test_of_many_commits_at_once_a_few_carry_their_hints() -> None:
    # Given a process that has sent nothing for a while
    clock = ManualClock(START)
    signal = PostgresSignal("postgresql://nowhere", clock, origin="process_a")

    # Then the first commits carry their hints, those right after them do not, and a later one does
    for _ in range(SENDS_AT_ONCE):
        assert signal.hint("lane.hot") is not None
    assert signal.hint("lane.hot") is None
    clock.advance(SEND_EVERY_S)
    assert signal.hint("lane.cold") is not None
    assert signal.hint("lane.hot") is None

    # But none does while others wait to be sent
    clock.advance(3600)
    await signal.announce("lane.hot")
    assert signal.hint("lane.hot") is None


async def test_hints_after_commits_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a process that is connected, and whose notifies are noted
    clock, sent_s = ManualClock(START), list[float]()
    signal = PostgresSignal("postgresql://nowhere", clock, origin="process_a")

    async def note(*_: object) -> None:
        sent_s.append(clock.monotonic())

    monkeypatch.setattr(signal._listener, "_execute", note)
    monkeypatch.setattr(signal._listener, "_connection", SimpleNamespace(is_closed=lambda: False))

    # When a commit carries a hint, and others are announced after it, without a rest
    assert signal.hint("lane.hot") is not None
    for _ in range(3 * SENDS_AT_ONCE):
        await signal.announce("lane.hot")
        await signal._listener.run_once()

    # Then the first few were sent at once, together with that commit, and the others evenly
    assert sent_s[SENDS_AT_ONCE - 2] == START.timestamp() < sent_s[SENDS_AT_ONCE - 1]
    later = sent_s[SENDS_AT_ONCE - 2 :]
    gaps = [after - before for before, after in pairwise(later)]
    assert gaps == pytest.approx([SEND_EVERY_S] * len(gaps), abs=1e-4)


async def test_a_line_that_was_cut_is_made_again_and_everybody_looks(
    processes: tuple[Connected, ...], postgres_url: str
) -> None:
    # Given a process whose connection the server cuts
    here, there = processes
    cut = backend(there)
    await stores.execute_on(postgres_url, f"SELECT pg_terminate_backend({cut}, 10000)")

    # When it has connected again, then all of its listeners look: they may have missed something
    await there.hot.heard()
    await there.cold.heard()
    assert backend(there) != cut

    # And it hears again, and sends
    await here.signal.announce("lane.cold")
    await there.cold.heard()
    await there.signal.announce("lane.hot")
    await here.hot.heard()


async def test_a_hint_from_another_program_on_the_channel_is_no_error(
    processes: tuple[Connected, ...], postgres_url: str
) -> None:
    here, there = processes
    for payload in ("", "nonsense", "somebody unknown.topic", " "):
        await stores.execute_on(postgres_url, f"SELECT pg_notify('{CHANNEL}', '{payload}')")

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    assert there.cold.nudges == 0
