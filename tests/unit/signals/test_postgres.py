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
from tests.unit.signals.listeners import Listener


class Process:
    """A signal as one process has it, with two who listen."""

    def __init__(self, url: str, origin: str) -> None:
        self.signal = PostgresSignal(url, SystemClock(), origin=origin)
        self.hot, self.cold = Listener(), Listener()
        self.signal.subscribe("lane.hot", self.hot)
        self.signal.subscribe("lane.cold", self.cold)

    @property
    def backend(self) -> int:
        """The server's number for this process's connection."""
        connection = self.signal._listener._connection
        assert connection is not None
        return connection.get_server_pid()


@pytest.fixture
async def processes(
    postgres_url: str,
) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes that listen on one server."""
    both = Process(postgres_url, "process_a"), Process(postgres_url, "process_b")
    for each in both:
        await each.signal.start()
    yield both
    for each in both:
        await each.signal.stop()


async def test_an_announcement_reaches_the_other_process(
    processes: tuple[Process, Process],
) -> None:
    here, there = processes

    await here.signal.announce("lane.hot")

    await there.hot.heard()
    assert there.cold.nudges == 0


async def test_an_announcement_reaches_ones_own_listeners_at_once_and_once(
    processes: tuple[Process, Process],
) -> None:
    # Given an announcement, which this process hears at once
    here, there = processes
    await here.signal.announce("lane.hot")
    assert here.hot.nudges == 1

    # When its echo has come back: what another sends after hearing it comes behind it
    await there.hot.heard()
    await there.signal.announce("lane.cold")
    await here.cold.heard()

    # Then the echo was not heeded
    assert here.hot.nudges == 1


async def test_many_announcements_are_gathered_into_few(
    processes: tuple[Process, Process],
) -> None:
    # Given somebody who counts what goes over the line
    here, there = processes

    # When one topic is announced a hundred times, and then another
    for _ in range(100):
        await here.signal.announce("lane.hot")
    await here.signal.announce("lane.cold")
    await there.cold.heard()

    # Then the other process heard of the first a few times at most
    assert 1 <= there.hot.nudges <= 3


async def test_a_hint_that_a_commit_carries_is_understood_and_not_sent_again(
    processes: tuple[Process, Process], postgres_url: str
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


def test_of_many_commits_at_once_a_few_carry_their_hints() -> None:
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


async def test_a_commit_carries_no_hint_while_others_wait_to_be_sent() -> None:
    clock = ManualClock(START)
    signal = PostgresSignal("postgresql://nowhere", clock, origin="process_a")

    await signal.announce("lane.hot")

    assert signal.hint("lane.hot") is None


async def test_a_line_that_was_cut_is_made_again_and_everybody_looks(
    processes: tuple[Process, Process], postgres_url: str
) -> None:
    # Given a process whose connection the server cuts
    here, there = processes
    cut = there.backend
    await stores.execute_on(postgres_url, f"SELECT pg_terminate_backend({cut}, 10000)")

    # When it has connected again, then all of its listeners look: they may have missed something
    await there.hot.heard()
    await there.cold.heard()
    assert there.backend != cut

    # And it hears again
    await here.signal.announce("lane.cold")
    await there.cold.heard()


async def test_a_line_that_was_cut_and_made_again_still_sends(
    processes: tuple[Process, Process], postgres_url: str
) -> None:
    # Given a process that has connected again
    here, there = processes
    await stores.execute_on(postgres_url, f"SELECT pg_terminate_backend({here.backend}, 10000)")
    await here.cold.heard()

    # When it announces, then the other hears it
    await here.signal.announce("lane.hot")
    await there.hot.heard()


async def test_what_waits_is_sent_before_the_line_is_closed(
    postgres_url: str, processes: tuple[Process, Process]
) -> None:
    # Given a process that announces and stops in the same breath
    _, there = processes
    leaving = Process(postgres_url, "process_c")
    await leaving.signal.start()
    await leaving.signal.announce("lane.hot")
    await leaving.signal.stop()

    # Then the others have heard it
    await there.hot.heard()


async def test_a_hint_from_another_program_on_the_channel_is_no_error(
    processes: tuple[Process, Process], postgres_url: str
) -> None:
    here, there = processes
    for payload in ("", "nonsense", "somebody unknown.topic", " "):
        await stores.execute_on(postgres_url, f"SELECT pg_notify('{CHANNEL}', '{payload}')")

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    assert there.cold.nudges == 0


async def test_stopping_without_a_start_and_twice_is_fine(
    postgres_url: str,
) -> None:
    never = Process(postgres_url, "process_d")
    await never.signal.stop()
    await never.signal.stop()


async def test_an_announcement_before_the_start_does_not_raise(
    postgres_url: str, processes: tuple[Process, Process]
) -> None:
    _, there = processes
    early = Process(postgres_url, "process_e")

    await early.signal.announce("lane.hot")
    assert early.hot.nudges == 1
    await early.signal.start()

    await there.hot.heard()
    await early.signal.stop()
