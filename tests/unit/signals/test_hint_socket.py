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
from tests.unit.signals.listeners import Process, running

Socketed = Process[SqliteSignal]


async def never() -> int:
    """Nobody looks at the file itself."""
    return 0


def process(path: Path, name: str) -> Socketed:
    """A signal as one process has it."""
    return Process(SqliteSignal(path, never, SystemClock(), origin=name))


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
async def both(path: Path) -> AsyncIterator[tuple[Socketed, ...]]:
    """Two processes on the file."""
    async with running(process(path, "here"), process(path, "there")) as both:
        yield both


async def test_the_socket_of_a_process_that_was_killed_is_removed_if_it_can_be(
    both: tuple[Socketed, ...], folder: ProcessFolder
) -> None:
    # Given a socket that nobody listens to any more, and something that cannot be removed as one
    killed, other = folder.place("killed", SOCKET), folder.place("folder", SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(killed))
    other.mkdir()

    # When something is announced, then the others hear it
    here, there = both
    here.signal._socket.send(["lane.hot"])
    await there.hot.heard()

    # And the socket is gone
    other.rmdir()
    assert killed not in folder.files(SOCKET)
    assert len(list(folder.files(SOCKET))) == 2


async def test_a_process_that_does_not_read_its_hints_stops_nobody(
    both: tuple[Socketed, ...], folder: ProcessFolder
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
    both: tuple[Socketed, ...], folder: ProcessFolder
) -> None:
    here, there = both
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as somebody:
        for nonsense in (b"", b"\xff\xfe", b"unknown.topic", b"x" * 5000):
            somebody.sendto(nonsense, str(folder.place("there", SOCKET)))

    await here.signal.announce("lane.hot")
    await there.hot.heard()

    assert there.cold.nudges == 0


async def test_the_last_process_removes_the_folder(path: Path, folder: ProcessFolder) -> None:
    async with running(process(path, "last")):
        async with running(process(path, "first")):
            assert folder.path.stat().st_mode & 0o777 == 0o700
        assert folder.path.exists()

    assert not folder.path.exists()


@pytest.mark.parametrize("deep", [True, False], ids=["too long for a socket", "a link"])
async def test_a_long_path_still_has_a_socket_and_two_names_of_one_file_are_one_database(
    tmp_path: Path, deep: bool
) -> None:
    folder = tmp_path / ("deep" * 30) / ("er" * 30) if deep else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    here = there = folder / "jobs.db"
    if not deep:
        here.touch()
        there = folder / "link.db"
        there.symlink_to("jobs.db")

    async with running(process(here, "here"), process(there, "there")) as (one, other):
        await one.signal.announce("lane.hot")
        await other.hot.heard()

    assert list(folder.iterdir()) == [] or not deep


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
    async with running(process(path, "here")) as (here,):
        await here.signal.announce("lane.hot")
        await here.signal.liveness.hold("worker")

        # Then it works without, and leaves the place as it was
        assert here.hot.nudges == 1
        assert not here.signal.liveness.held
        assert list(folder.files(SOCKET)) == list(folder.files(LOCK)) == []
        await here.signal.liveness.release()
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
    async with running(process(path, "here")) as (here,):
        await here.signal.liveness.hold("worker")
        dead = await here.signal.liveness.find_dead([])

    # Then the file stays
    assert list(dead) == []
    assert theirs.exists()


async def test_a_platform_without_such_sockets_does_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")

    async with running(process(path, "here")) as (here,):
        await here.signal.announce("lane.hot")

    assert here.hot.nudges == 1
