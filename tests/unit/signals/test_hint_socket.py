"""Hints between the processes on a SQLite file: sent at once, and where they cannot be, not."""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headgate.base.clock import SystemClock
from headgate.signals.process_folder import LOCK, SOCKET, ProcessFolder
from headgate.signals.sqlite import SqliteSignal
from tests.unit.signals.listeners import Listener


class Process:
    """A signal as one process has it; it never looks at the file itself."""

    def __init__(self, path: Path, name: str) -> None:
        async def never() -> int:
            return 0

        self.signal = SqliteSignal(path, never, SystemClock(), origin=name)
        self.hot, self.cold = Listener(), Listener()
        self.signal.subscribe("lane.hot", self.hot)
        self.signal.subscribe("lane.cold", self.cold)


@pytest.fixture
def path() -> Iterator[Path]:
    """The database, which need not be there; short enough for addresses of sockets."""
    with TemporaryDirectory(prefix="headgate-") as folder:
        yield Path(folder) / "jobs.db"


@pytest.fixture
def folder(path: Path) -> ProcessFolder:
    """The folder next to it."""
    return ProcessFolder(path)


@pytest.fixture
async def both(path: Path) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes on the file."""
    here, there = Process(path, "here"), Process(path, "there")
    for each in (here, there):
        await each.signal.start()
    yield here, there
    for each in (here, there):
        await each.signal.stop()


async def test_an_announcement_reaches_the_other_process_and_this_one_once(
    both: tuple[Process, Process],
) -> None:
    here, there = both

    await here.signal.announce("lane.hot")

    await there.hot.heard()
    assert [here.hot.nudges, there.cold.nudges, here.cold.nudges] == [1, 0, 0]


async def test_announcements_in_one_breath_are_sent_together(
    both: tuple[Process, Process],
) -> None:
    here, there = both

    for _ in range(100):
        await here.signal.announce("lane.hot")
    await here.signal.announce("lane.cold")

    await there.cold.heard()
    assert there.hot.nudges == 1


async def test_what_follows_closely_is_sent_too(both: tuple[Process, Process]) -> None:
    here, there = both
    await here.signal.announce("lane.hot")
    await there.hot.heard()

    await here.signal.announce("lane.cold")

    await there.cold.heard()


async def test_what_waits_is_sent_before_a_process_leaves(
    path: Path, both: tuple[Process, Process]
) -> None:
    leaving = Process(path, "leaving")
    await leaving.signal.start()
    await leaving.signal.announce("lane.hot")
    await leaving.signal.stop()

    await both[1].hot.heard()


async def test_the_socket_of_a_process_that_was_killed_is_removed(
    both: tuple[Process, Process], folder: ProcessFolder
) -> None:
    # Given a socket that nobody listens to any more
    killed = folder.place("killed", SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(killed))

    # When something is announced, then the others hear it
    here, there = both
    await here.signal.announce("lane.hot")
    await there.hot.heard()

    # And the socket is gone
    assert killed not in folder.files(SOCKET)
    assert len(list(folder.files(SOCKET))) == 2


async def test_what_cannot_be_removed_keeps_no_hint_from_others(
    both: tuple[Process, Process], folder: ProcessFolder
) -> None:
    # Given something that does not answer, and cannot be removed as a socket is
    here, there = both
    folder.place("folder", SOCKET).mkdir()

    here.signal._socket.send(["lane.hot"])

    await there.hot.heard()
    folder.place("folder", SOCKET).rmdir()


async def test_a_process_that_does_not_read_its_hints_stops_nobody(
    both: tuple[Process, Process], folder: ProcessFolder
) -> None:
    # Given a frozen process, whose queue fills up
    here, there = both
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as frozen:
        frozen.bind(str(folder.place("frozen", SOCKET)))
        for _ in range(50):
            here.signal._socket.send(["lane.hot"])
            await there.hot.heard()

        # Then its socket is left alone
        assert folder.place("frozen", SOCKET) in folder.files(SOCKET)


async def test_what_no_process_of_ours_sends_is_no_error(
    both: tuple[Process, Process], folder: ProcessFolder
) -> None:
    here, there = both
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as somebody:
        for nonsense in (b"", b"\xff\xfe", b"unknown.topic", b"x" * 5000):
            somebody.sendto(nonsense, str(folder.place("there", SOCKET)))

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    assert there.cold.nudges == 0


async def test_the_last_process_removes_the_folder(path: Path, folder: ProcessFolder) -> None:
    first, last = Process(path, "first"), Process(path, "last")
    await first.signal.start()
    await last.signal.start()
    mode = folder.path.stat().st_mode & 0o777

    await first.signal.stop()
    assert folder.path.exists()
    await last.signal.stop()

    assert not folder.path.exists()
    assert mode == 0o700


async def test_a_path_that_is_too_long_for_a_socket_still_has_one(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30) / ("er" * 30)
    deep.mkdir(parents=True)
    here, there = Process(deep / "jobs.db", "here"), Process(deep / "jobs.db", "there")
    await here.signal.start()
    await there.signal.start()

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    await here.signal.stop()
    await there.signal.stop()
    assert list(deep.iterdir()) == []


async def test_two_names_of_one_file_are_one_database(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").touch()
    (tmp_path / "link.db").symlink_to("jobs.db")
    here, there = Process(tmp_path / "jobs.db", "here"), Process(tmp_path / "link.db", "there")
    await here.signal.start()
    await there.signal.start()

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    await here.signal.stop()
    await there.signal.stop()


def open_to_all(folder: ProcessFolder) -> None:
    folder.path.mkdir()
    folder.path.chmod(0o777)


def a_link(folder: ProcessFolder) -> None:
    elsewhere = folder.path.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.path.symlink_to(elsewhere)


def a_file(folder: ProcessFolder) -> None:
    folder.path.touch()


@pytest.mark.parametrize("make", [open_to_all, a_link, a_file])
async def test_a_folder_that_others_may_write_to_is_not_used(
    path: Path, folder: ProcessFolder, make: Callable[[ProcessFolder], None]
) -> None:
    # Given something else in the place of the folder
    make(folder)

    # When a process starts, announces, and is a worker
    process = Process(path, "here")
    await process.signal.start()
    await process.signal.announce("lane.hot")
    await process.signal.liveness.hold("worker")

    # Then it works without, and leaves the place as it was
    assert process.hot.nudges == 1
    assert not process.signal.liveness.held
    assert list(folder.files(SOCKET)) == list(folder.files(LOCK)) == []
    await process.signal.liveness.release()
    await process.signal.stop()
    assert os.path.lexists(folder.path)


@pytest.mark.parametrize("make", [open_to_all, a_link])
async def test_a_file_of_others_is_not_taken_for_what_is_left_of_a_dead_worker(
    path: Path, folder: ProcessFolder, make: Callable[[ProcessFolder], None]
) -> None:
    # Given a file that is called like a lock, in a folder that is not ours
    make(folder)
    theirs = folder.path / "poetry.lock"
    theirs.touch()

    # When a worker looks for dead ones
    process = Process(path, "here")
    await process.signal.start()
    await process.signal.liveness.hold("worker")
    dead = await process.signal.liveness.find_dead([])
    await process.signal.stop()

    # Then the file stays
    assert list(dead) == []
    assert theirs.exists()


async def test_a_platform_without_such_sockets_does_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    process = Process(path, "here")

    await process.signal.start()
    await process.signal.announce("lane.hot")
    await process.signal.stop()

    assert process.hot.nudges == 1
